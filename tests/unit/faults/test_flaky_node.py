"""`flaky-node`: it waits until the health agent of the node is heard again."""

from __future__ import annotations

from typing import Any

from lab.api.health import DeviceView, HealthView
from lab.faults import Scene, find_fault
from lab.topology import LabSpec, State
from tests.fakes import FakeRuntime


class Heard:
    """A controller that hears of the node each time it is asked."""

    at = 5.0

    def ask(self, *_: object) -> HealthView:
        self.at += 1.0
        return HealthView(5.0, (DeviceView("ray-worker-0", "cpu", "", "PASS", "", "", 0.0, self.at, ()),), ())


def test_a_flaky_node_dies_as_often_as_asked_and_runs_in_the_end() -> None:
    fault = find_fault("flaky-node")
    runtime = FakeRuntime("test")
    runtime.up(LabSpec())
    fault.clock = runtime.clock
    made: Any = Heard()
    given = Scene(runtime, "ray-worker-0", "job-1", fault.kind.settle({"times": 2}), queues=made)
    assert not fault.took(given)
    fault.inject(given)
    assert fault.took(given)
    assert runtime.calls("kill", "start") == (
        *((method, "ray-worker-0") for _ in range(2) for method in ("kill", "start")),
    )
    fault.revert(given)
    assert given.state() is State.HEALTHY
