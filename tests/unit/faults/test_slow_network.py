"""`slow-network` over a fake lab."""

from __future__ import annotations

import pytest

from lab.errors import UnsupportedError, UsageError
from lab.faults import Scene
from lab.faults.kinds.slow_network import SlowNetwork
from lab.runtime.base import Feature
from lab.services import worker
from lab.topology import LabSpec
from tests.fakes import FakeRuntime

W0 = worker(0)


@pytest.fixture
def runtime() -> FakeRuntime:
    runtime = FakeRuntime("raylab")
    runtime.up(LabSpec(workers=2))
    return runtime


def scene(runtime: FakeRuntime, **given: float) -> Scene:
    return Scene(runtime, W0, parameters=SlowNetwork.kind.settle(given))


@pytest.fixture
def fault(runtime: FakeRuntime) -> SlowNetwork:
    return SlowNetwork(runtime.clock)


def test_the_network_is_slow_until_the_revert(runtime: FakeRuntime, fault: SlowNetwork) -> None:
    hit = scene(runtime, loss=2, delay=30)
    fault.refuse(hit)
    fault.inject(hit)
    assert runtime.impaired == {W0: {"delay_ms": 30, "loss_percent": 2, "rate_mbit": 10}}
    fault.revert(hit)
    fault.revert(hit)
    assert runtime.impaired == {}
    assert runtime.calls("start") == ()


def test_a_node_that_the_cluster_gave_up_is_started_again(runtime: FakeRuntime, fault: SlowNetwork) -> None:
    hit = scene(runtime)
    fault.inject(hit)
    runtime.die(W0)
    fault.revert(hit)
    assert runtime.status().healthy


@pytest.mark.parametrize(
    ("name", "lacks"), [("delay", Feature.NETWORK_DELAY), ("loss", Feature.NETWORK_LOSS)]
)
def test_what_the_machine_cannot_do_is_refused_and_the_rest_is_not(
    runtime: FakeRuntime, fault: SlowNetwork, name: str, lacks: Feature
) -> None:
    runtime.lack(lacks, "the kernel has no netem")
    fault.refuse(scene(runtime, rate=5))
    with pytest.raises(UnsupportedError, match="no netem"):
        fault.refuse(scene(runtime, **{name: 1.0}))


def test_a_fault_that_would_slow_down_nothing_is_refused(runtime: FakeRuntime, fault: SlowNetwork) -> None:
    with pytest.raises(UsageError, match="nothing would be slow"):
        fault.refuse(scene(runtime, rate=0))


def test_where_nodes_share_a_network_it_is_refused(runtime: FakeRuntime, fault: SlowNetwork) -> None:
    runtime.lack(Feature.NETWORK, "one loopback for all")
    with pytest.raises(UnsupportedError, match="one loopback"):
        fault.refuse(scene(runtime))
