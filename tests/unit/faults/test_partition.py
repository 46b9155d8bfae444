"""`partition` over a fake lab."""

from __future__ import annotations

import pytest

from lab.errors import LabDownError, UnsupportedError
from lab.faults import Scene
from lab.faults.kinds.partition import Partition
from lab.runtime.base import Feature
from lab.services import worker
from tests.fakes import FakeRuntime

W0 = worker(0)


@pytest.fixture
def fault(runtime: FakeRuntime) -> Partition:
    return Partition(runtime.clock)


def node(runtime: FakeRuntime) -> str:
    return next(n.node_id for n in runtime.nodes() if n.alive and n.service == W0)


def test_a_node_that_was_given_up_while_it_was_cut_off_comes_back_as_a_new_one(
    runtime: FakeRuntime, fault: Partition
) -> None:
    before, scene = node(runtime), Scene(runtime, W0)
    fault.inject(scene)
    runtime.clock.sleep(10)
    assert not any(n.alive for n in runtime.nodes() if n.node_id == before)
    fault.revert(scene)
    assert runtime.calls("disconnect", "reconnect", "start") == (
        ("disconnect", W0),
        ("reconnect", W0),
        ("start", W0),
    )
    assert runtime.status().healthy
    assert node(runtime) != before
    fault.revert(scene)
    assert runtime.status().healthy


def test_after_a_cut_that_nobody_noticed_the_node_goes_on(runtime: FakeRuntime, fault: Partition) -> None:
    before, scene = node(runtime), Scene(runtime, W0)
    fault.inject(scene)
    runtime.clock.sleep(0.5)
    fault.revert(scene)
    assert runtime.calls("start") == ()
    assert runtime.status().healthy
    assert node(runtime) == before


def test_a_node_that_is_down_cannot_be_cut_off_and_the_revert_starts_it(
    runtime: FakeRuntime, fault: Partition
) -> None:
    runtime.die(W0)
    with pytest.raises(LabDownError):
        fault.inject(Scene(runtime, W0))
    fault.revert(Scene(runtime, W0))
    assert runtime.status().healthy


def test_where_nodes_share_a_network_it_is_refused(runtime: FakeRuntime, fault: Partition) -> None:
    fault.refuse(Scene(runtime, W0))
    runtime.lack(Feature.NETWORK, "one loopback for all")
    with pytest.raises(UnsupportedError, match="one loopback"):
        fault.refuse(Scene(runtime, W0))
