"""`crash-restart` over a fake lab."""

from __future__ import annotations

import pytest

from lab.errors import LabDownError, ServiceError
from lab.faults import Scene
from lab.faults.kinds.crash_restart import BACK_SECONDS, STARTING_SECONDS, CrashRestart
from lab.services import worker
from lab.topology import LabSpec, State, Struck
from tests.fakes import FakeRuntime

W0 = worker(0)


class Unsupervised(FakeRuntime):
    """A lab whose crashed services stay down."""

    def crash(self, service: str) -> Struck:
        return self.kill(service)


def up(runtime: FakeRuntime) -> tuple[FakeRuntime, CrashRestart, Scene]:
    runtime.up(LabSpec(workers=2))
    runtime.host.journal.clear()
    return runtime, CrashRestart(runtime.clock), Scene(runtime, W0)


def test_the_node_comes_back_by_itself_as_a_new_one() -> None:
    runtime, fault, scene = up(FakeRuntime("raylab"))
    before = {node.node_id for node in runtime.nodes()}
    fault.inject(scene)
    assert [s.state for s in runtime.status().services if s.service == W0] == [State.EXITED]
    begin = runtime.clock()
    fault.revert(scene)
    assert runtime.status().healthy
    assert runtime.clock() - begin < 5
    assert len({node.node_id for node in runtime.nodes()} - before) == 1


def test_a_node_that_does_not_come_back_by_itself_is_started() -> None:
    runtime, fault, scene = up(Unsupervised("raylab"))
    fault.inject(scene)
    begin = runtime.clock()
    fault.revert(scene)
    assert runtime.status().healthy
    assert runtime.clock() - begin == pytest.approx(BACK_SECONDS, abs=1)


def test_the_revert_always_tells_the_runtime_that_it_is_over() -> None:
    runtime, fault, scene = up(FakeRuntime("raylab"))
    fault.inject(scene)
    fault.revert(scene)
    fault.revert(scene)
    assert runtime.calls("crash", "start") == (("crash", W0), ("start", W0), ("start", W0))


def test_a_node_that_is_down_cannot_crash_and_the_revert_starts_it() -> None:
    runtime, fault, scene = up(FakeRuntime("raylab"))
    runtime.die(W0)
    with pytest.raises(LabDownError):
        fault.inject(scene)
    fault.revert(scene)
    assert runtime.status().healthy


def test_a_node_that_never_comes_back_is_an_error() -> None:
    runtime, fault, scene = up(Unsupervised("raylab"))
    fault.inject(scene)
    runtime.fail_on_start(W0, ServiceError("ended while starting"))
    with pytest.raises(ServiceError):
        fault.revert(scene)


def test_a_node_that_is_still_starting_is_not_ended_in_the_middle_of_it() -> None:
    runtime, fault, scene = up(FakeRuntime("raylab"))
    fault.inject(scene)
    runtime.slow_start(W0, 150)  # a look every half second
    begin = runtime.clock()
    fault.revert(scene)
    assert BACK_SECONDS < runtime.clock() - begin < STARTING_SECONDS
    assert runtime.host.logs["raylab", W0].count(f"{W0} started") == 2, "at `up`, and by its supervisor"
