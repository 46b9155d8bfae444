"""Faults that a health check has to notice: what a check says, and that it speaks for itself again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lab.api.health import DeviceView, HealthView, Symptom
from lab.errors import NotFoundError, RefusedError
from lab.ext.health.faults import MARGIN_SECONDS
from lab.faults import Scene, find_fault
from tests.fakes import FakeRuntime

NONE: Mapping[str, float] = {}
DEVICES = tuple(
    DeviceView(node, device, "", "PASS", "", "", 0.0, 5.0, ())
    for node, device in (("ray-worker-0", "GPU-1234"), ("ray-worker-0", "cpu"), ("ray-worker-1", "cpu"))
)


class Queues:
    """The controller: what it is asked, and the symptoms that hold."""

    def __init__(self, known: bool = True) -> None:
        self.known = known
        self.symptoms: list[Symptom] = []

    def describe(self, job: str) -> dict[str, Any]:
        if not self.known:
            raise NotFoundError(f"there is no job {job}")
        return {"workload": job}

    def ask(self, model: type, method: str, path: str, request: object = None) -> object:
        if isinstance(request, Symptom):
            where = (request.node, request.device, request.check)
            self.symptoms = [s for s in self.symptoms if (s.node, s.device, s.check) != where]
            self.symptoms += [request] if request.state != "PASS" else []
        else:
            return HealthView(5.0, DEVICES, tuple(self.symptoms))
        return request


def scene(queues: Queues, parameters: Mapping[str, float] = NONE, target: str = "ray-worker-0") -> Scene:
    made: Any = queues
    return Scene(FakeRuntime("test"), target, "job-1", parameters, queues=made)


@pytest.mark.parametrize(
    ("fault", "check", "device", "state"),
    [
        ("gpu-sick", "ecc", "GPU-1234", "EVICT"),
        ("slow-disk", "disk-latency", "cpu", "WARN"),
        ("clock-skew", "clock-skew", "cpu", "WARN"),
    ],
)
def test_a_check_says_it_until_the_fault_is_reverted(fault: str, check: str, device: str, state: str) -> None:
    queues, made = Queues(), find_fault(fault)
    given = scene(queues, made.kind.settle({}))
    assert not made.took(given)
    made.inject(given)
    (symptom,) = queues.symptoms
    assert (symptom.node, symptom.device, symptom.check, symptom.state) == (
        "ray-worker-0",
        device,
        check,
        state,
    )
    assert symptom.until == 5.0 + 20.0 + MARGIN_SECONDS
    assert made.took(given)
    made.revert(given)
    made.revert(given)
    assert queues.symptoms == []


def test_a_node_without_a_gpu_cannot_have_a_sick_one() -> None:
    fault = find_fault("gpu-sick")
    with pytest.raises(RefusedError, match="no GPU"):
        fault.inject(scene(Queues(), fault.kind.settle({}), "ray-worker-1"))


def test_a_job_that_nobody_would_move_is_refused() -> None:
    fault, queues = find_fault("gpu-sick"), Queues(known=False)
    with pytest.raises(RefusedError, match="past the controller"):
        fault.inject(scene(queues, fault.kind.settle({})))
    assert queues.symptoms == []


def test_a_revert_without_an_injection_asks_for_nothing() -> None:
    queues = Queues()
    find_fault("slow-disk").revert(scene(queues))
    assert queues.symptoms == []
