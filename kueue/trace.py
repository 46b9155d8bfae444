"""A simulation as a JSON document of the schema `queue-simulation/1`."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from kueue.item import PENDING, Item
from kueue.model import quotas
from kueue.places import Change
from kueue.plainly import waits, whose
from kueue.shares import share
from kueue.simulate import Simulation, Span
from kueue.writing import natural

SCHEMA = "queue-simulation/1"


@dataclass(frozen=True)
class SimulatedWorkload:
    """A workload at the end, and what it held until then."""

    workload: str
    local_queue: str
    cluster_queue: str
    priority: int
    state: str
    reason: str
    message: str
    waits: str
    """The reason in a sentence for people."""
    flavors: Mapping[str, Mapping[str, str]]
    waited: float | None
    """Seconds until it was admitted first; None where it never was."""
    held: tuple[Mapping[str, object], ...]
    """Stretches of time: `from`, `to`, `usage` (flavor -> resource -> amount), `ended_by`."""
    position: int | None
    preemptions: int
    finished_at: float | None


@dataclass(frozen=True)
class SimulatedUsage:
    """Usage of a ClusterQueue from a moment on: flavor -> resource -> amount."""

    at: float
    flavors: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class SimulatedQueue:
    """A ClusterQueue at the end, and its usage over time; a `weighted_share` of None is infinite."""

    name: str
    cohort: str
    active: bool
    message: str
    nominal: Mapping[str, Mapping[str, float]]
    pending: int
    admitted: int
    weighted_share: int | None
    usage: tuple[SimulatedUsage, ...]


@dataclass(frozen=True)
class SimulationDocument:
    """A whole run; times are seconds after its start, which is a time in ISO 8601."""

    schema: str
    start: str | None
    end: float
    cycles: int
    restless: tuple[float, ...]
    """Times at which the queues did not come to rest."""
    events: tuple[Change, ...]
    workloads: tuple[SimulatedWorkload, ...]
    cluster_queues: tuple[SimulatedQueue, ...]


def document(simulation: Simulation) -> SimulationDocument:
    """The document of a run."""
    engine = simulation.engine
    return SimulationDocument(
        schema=SCHEMA,
        start=_time(simulation.start),
        end=_round(simulation.end),
        cycles=engine.cycles,
        restless=tuple(sorted(_at(simulation, key) for key in engine.restless)),
        events=tuple(replace(change, at=_at(simulation, change.at)) for change in simulation.changes),
        workloads=_workloads(simulation),
        cluster_queues=tuple(_queue(simulation, name) for name in engine.setup.cluster_queues),
    )


def _workloads(simulation: Simulation) -> tuple[SimulatedWorkload, ...]:
    engine = simulation.engine
    spans: dict[str, list[Span]] = defaultdict(list)
    for span in simulation.spans:
        spans[span.workload].append(span)
    positions = {item.key: place for pending in engine.pending.values() for place, item in enumerate(pending)}
    counts = Counter(change.workload for change in simulation.changes if change.event == "Preempted")
    finished = {
        change.workload: _at(simulation, change.at)
        for change in simulation.changes
        if change.event == "Finished"
    }
    return tuple(
        _workload(
            simulation,
            item,
            spans[key],
            position=positions.get(key) if item.state == PENDING else None,
            preemptions=counts[key],
            finished_at=finished.get(key),
        )
        for key, item in engine.items.items()
    )


def _workload(
    simulation: Simulation,
    item: Item,
    spans: list[Span],
    *,
    position: int | None,
    preemptions: int,
    finished_at: float | None,
) -> SimulatedWorkload:
    reason, message = simulation.engine.condition(item)
    admission = item.admission
    created = max(0.0, item.workload.created - simulation.start)
    return SimulatedWorkload(
        workload=item.key,
        local_queue=item.queue[1],
        cluster_queue=item.cluster_queue,
        priority=item.priority,
        state=item.state,
        reason=reason,
        message=message,
        waits=waits(simulation.engine, item, whose),
        flavors={} if admission is None else admission.flavors(),
        waited=_round(max(0.0, spans[0].begin - created)) if spans else None,
        held=tuple(
            {
                "from": _round(span.begin),
                "to": None if span.end is None else _round(span.end),
                "usage": natural(span.usage),
                "ended_by": span.ended_by,
            }
            for span in spans
        ),
        position=position,
        preemptions=preemptions,
        finished_at=finished_at,
    )


def _queue(simulation: Simulation, name: str) -> SimulatedQueue:
    engine = simulation.engine
    queue, node = engine.setup.cluster_queues[name], engine.tree.queues[name]
    weighted = share(node).weighted
    return SimulatedQueue(
        name=name,
        cohort=queue.cohort,
        active=name not in engine.inactive,
        message=engine.inactive.get(name, "Can admit new workloads"),
        nominal=natural({place: quota.nominal for place, quota in quotas(queue.groups)}),
        pending=sum(1 for _ in engine.pending[name]),
        admitted=len(engine.snapshot.held[name]),
        weighted_share=None if math.isinf(weighted) else math.ceil(weighted),
        usage=tuple(SimulatedUsage(_round(at), natural(used)) for at, used in simulation.usage.get(name, [])),
    )


def _at(simulation: Simulation, moment: float) -> float:
    return _round(moment - simulation.start)


def _round(seconds: float) -> float:
    return round(seconds, 6)


def _time(seconds: float) -> str | None:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat() if seconds else None
