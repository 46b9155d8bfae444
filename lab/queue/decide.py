"""One decision as a pure function of quotas, workloads and the moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lab.queue.engine import Engine
from lab.queue.item import PENDING
from lab.queue.model import Setup, Workload
from lab.queue.places import Change


@dataclass(frozen=True)
class Decision:
    """Outcome of one cycle. `reasons` holds reason and message of each workload that waits."""

    admissions: tuple[Change, ...]
    preemptions: tuple[Change, ...]
    reasons: dict[str, tuple[str, str]]


def decide(setup: Setup, workloads: Iterable[Workload], now: float) -> Decision:
    """Make one cycle, with one head of each ClusterQueue, on workloads as their status says."""
    engine = Engine(setup)
    for workload in workloads:
        engine.submit(workload, now)
    changes = engine.cycle(now)
    return Decision(
        tuple(each for each in changes if each.event == "Admitted"),
        tuple(each for each in changes if each.event == "Preempted"),
        {key: engine.told(item) for key, item in engine.items.items() if item.state == PENDING},
    )
