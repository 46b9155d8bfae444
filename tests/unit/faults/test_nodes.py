"""Node faults over a fake lab: kill, stop, pause, drain."""

from __future__ import annotations

from typing import Any

import pytest

from lab.errors import LabDownError, RefusedError, ServiceError
from lab.faults import Fault, Scene, find_fault
from lab.faults.base import SETTLE_SECONDS
from lab.faults.kinds.drain import Drain
from lab.faults.kinds.pause import Pause
from lab.services import worker
from lab.topology import State
from tests.fakes import FakeRuntime
from tests.unit.faults.ranks import probe, scene

W0 = worker(0)
NODE_FAULTS = ["kill", "stop", "pause"]


def fault(name: str, runtime: FakeRuntime) -> Fault:
    return Pause(runtime.clock) if name == "pause" else find_fault(name)


def state(runtime: FakeRuntime) -> State:
    node = runtime.status().service(W0)
    assert node is not None
    return node.state


@pytest.mark.parametrize(
    ("name", "during"), [("kill", State.EXITED), ("stop", State.EXITED), ("pause", State.PAUSED)]
)
def test_a_fault_does_what_it_says_and_its_revert_undoes_it(
    runtime: FakeRuntime, name: str, during: State
) -> None:
    subject = fault(name, runtime)

    subject.inject(Scene(runtime, W0))
    assert state(runtime) is during
    runtime.clock.sleep(5)
    subject.revert(Scene(runtime, W0))

    assert runtime.status().healthy
    others = [c.service for c in runtime.host.journal if c.service and c.service != W0]
    assert not others


@pytest.mark.parametrize("name", NODE_FAULTS)
def test_a_revert_can_be_repeated(runtime: FakeRuntime, name: str) -> None:
    subject = fault(name, runtime)
    subject.inject(Scene(runtime, W0))

    subject.revert(Scene(runtime, W0))
    before = runtime.status().service(W0)
    subject.revert(Scene(runtime, W0))

    assert runtime.status().service(W0) == before
    assert runtime.status().healthy


@pytest.mark.parametrize("name", NODE_FAULTS)
def test_a_revert_brings_a_service_back_that_could_not_be_broken_because_it_was_down(
    runtime: FakeRuntime, name: str
) -> None:
    runtime.die(W0)
    subject = fault(name, runtime)

    with pytest.raises(LabDownError):
        subject.inject(Scene(runtime, W0))
    subject.revert(Scene(runtime, W0))

    assert runtime.status().healthy


@pytest.mark.parametrize("name", NODE_FAULTS)
def test_a_service_that_does_not_come_back_is_an_error(runtime: FakeRuntime, name: str) -> None:
    subject = fault(name, runtime)
    subject.inject(Scene(runtime, W0))
    runtime.clock.sleep(5)
    runtime.fail_on_start(W0, ServiceError("ended while starting"))

    with pytest.raises(ServiceError):
        subject.revert(Scene(runtime, W0))


@pytest.mark.parametrize(
    ("frozen", "started", "waited"),
    [
        pytest.param(0.2, (), SETTLE_SECONDS, id="nobody noticed"),
        pytest.param(5, (("start", W0),), 0.0, id="given up meanwhile: started as soon as it has ended"),
    ],
)
def test_a_node_is_started_after_its_pause_only_where_it_was_given_up(
    runtime: FakeRuntime, frozen: float, started: tuple[tuple[str, str], ...], waited: float
) -> None:
    subject = fault("pause", runtime)
    subject.inject(Scene(runtime, W0))
    runtime.clock.sleep(frozen)
    begin = runtime.clock()

    subject.revert(Scene(runtime, W0))

    assert runtime.calls("resume", "start") == (("resume", W0), *started)
    assert runtime.clock() - begin == pytest.approx(waited, abs=0.6)
    assert runtime.status().healthy


NOTICE = 20.0


def announced(runtime: FakeRuntime, **options: Any) -> Scene:
    """A node whose end can be announced, `NOTICE` seconds before."""
    probe(runtime, "drain", "9e", NOTICE, **options)
    return scene(runtime, parameters={"notice": NOTICE}, node_id="9e")


def test_a_node_is_announced_and_shut_down_when_its_notice_is_over(runtime: FakeRuntime) -> None:
    there, began = announced(runtime), runtime.clock()

    struck = Drain(runtime.clock).inject(there)

    assert struck is not None
    assert struck.first == 9.0, "not the time of the announcement"
    assert runtime.clock() - began == pytest.approx(NOTICE)
    assert runtime.calls("execute", "stop") == (("execute", W0), ("stop", W0))
    assert state(runtime) is State.EXITED
    for _ in range(2):
        Drain(runtime.clock).revert(there)
        assert runtime.status().healthy
    assert runtime.calls("stop") == (("stop", W0),)


def test_a_node_that_ends_by_itself_once_its_ranks_are_gone_is_waited_for_no_longer(
    runtime: FakeRuntime,
) -> None:
    there, began = announced(runtime), runtime.clock()
    runtime.clock.after(5, lambda: runtime.die(W0))

    Drain(runtime.clock).inject(there)

    assert runtime.clock() - began == pytest.approx(5, abs=0.6)
    Drain(runtime.clock).revert(there)
    assert runtime.status().healthy


def test_an_announcement_that_ray_refuses_changes_nothing(runtime: FakeRuntime) -> None:
    there = announced(runtime, problem="the node has a task", exit_code=3)
    with pytest.raises(RefusedError, match="the node has a task"):
        Drain(runtime.clock).inject(there)
    Drain(runtime.clock).revert(there)
    assert runtime.calls("stop", "start") == (("start", W0),)
    assert runtime.status().healthy


def test_a_node_that_was_only_announced_is_not_left_so(runtime: FakeRuntime) -> None:
    """It takes nothing new for ever, so whoever heals after a labctl that died meanwhile ends it."""
    Drain(runtime.clock).revert(scene(runtime, memo={"announced": True}))
    assert runtime.calls("stop", "start") == (("stop", W0), ("start", W0))
    assert runtime.status().healthy
