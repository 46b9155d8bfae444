"""What the controller's events and a job's attempts say of a node that fell ill."""

from __future__ import annotations

from lab.api.queue import Attempt, QueueEvent
from lab.evidence.receipt.expected import Expected
from lab.evidence.receipt.model import FaultRecord
from lab.flows.recovery.preempted import steering_of

AT = 1000.0


def record(expected: Expected = Expected.SICK) -> FaultRecord:
    return FaultRecord("gpu-sick", "ray-worker-0", "id", AT, expected=expected)


def event(number: int, at: float, kind: str, reason: str, message: str) -> QueueEvent:
    return QueueEvent(number, at, kind, "", reason, message, "")


EVENTS = (
    event(1, AT - 50, "Health", "EVICT", "ray-worker-0 gpu-0 is EVICT: an older one"),
    event(2, AT + 2, "Health", "EVICT", "ray-worker-1 gpu-0 is EVICT: another node"),
    event(3, AT + 3, "Health", "EVICT", "ray-worker-0 gpu-0 is EVICT: ecc"),
    event(4, AT + 3.2, "NodeClosed", "Unhealthy", "ray-worker-0 takes no new work"),
    event(5, AT + 30, "NodeOpened", "Healthy", "ray-worker-0 takes new work again"),
)
ATTEMPTS = (
    Attempt(1, "a", 0.0, reset="FailedComponent", ended_at=AT - 100, charged=True),
    Attempt(2, "a-2", 0.0, reset="AutopilotNoExecute", ended_at=AT + 6),
    Attempt(3, "a-3", 0.0),
)


def test_what_followed_from_the_check() -> None:
    steering = steering_of(EVENTS, record(), ATTEMPTS)
    assert steering is not None
    assert (steering.noticed_at, steering.avoided_at, steering.until) == (AT + 3, AT + 3.2, AT + 30)
    assert (steering.reset, steering.reset_at, steering.charged) == ("AutopilotNoExecute", AT + 6, False)


def test_a_warning_is_not_what_a_sick_gpu_has() -> None:
    warning = event(3, AT + 3, "Health", "WARN", "ray-worker-0 cpu is WARN: disk-latency")
    assert steering_of((warning,), record(), ()) is None
    steering = steering_of((warning,), record(Expected.DOUBTED), ())
    assert steering is not None
    assert (steering.state, steering.avoided_at, steering.reset) == ("WARN", None, None)


def test_nothing_noticed_is_nothing() -> None:
    assert steering_of((), record(), ATTEMPTS) is None
