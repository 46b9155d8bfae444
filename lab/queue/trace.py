"""A simulation as a JSON document of the schema `queue-simulation/1`."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from datetime import datetime, timezone
from typing import Any

from lab.queue.item import PENDING, Item
from lab.queue.model import quotas
from lab.queue.plainly import waits, whose
from lab.queue.shares import share
from lab.queue.simulate import Simulation, Span
from lab.queue.writing import natural

SCHEMA = "queue-simulation/1"


def document(simulation: Simulation) -> dict[str, Any]:
    """The whole run; times are in seconds after its start."""
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
    return {
        "schema": SCHEMA,
        "start": _time(simulation.start),
        "end": _round(simulation.end),
        "cycles": engine.cycles,
        "restless": sorted(_at(simulation, moment) for moment in engine.restless),
        "events": [
            {
                "at": _at(simulation, change.at),
                "event": change.event,
                "workload": change.workload,
                "reason": change.reason,
                "message": change.message,
                "cluster_queue": change.cluster_queue,
                "flavors": change.flavors,
            }
            for change in simulation.changes
        ],
        "workloads": [
            {
                **_workload(simulation, item, spans[key]),
                "position": positions.get(key) if item.state == PENDING else None,
                "preemptions": counts[key],
                "finished_at": finished.get(key),
            }
            for key, item in engine.items.items()
        ],
        "cluster_queues": [_queue(simulation, name) for name in engine.setup.cluster_queues],
    }


def _workload(simulation: Simulation, item: Item, spans: list[Span]) -> dict[str, Any]:
    reason, message = simulation.engine.condition(item)
    admission = item.admission
    created = max(0.0, item.workload.created - simulation.start)
    return {
        "workload": item.key,
        "local_queue": item.queue[1],
        "cluster_queue": item.cluster_queue,
        "priority": item.priority,
        "state": item.state,
        "reason": reason,
        "message": message,
        "waits": waits(simulation.engine, item, whose),
        "flavors": {} if admission is None else admission.flavors(),
        "waited": _round(max(0.0, spans[0].begin - created)) if spans else None,
        "held": [
            {
                "from": _round(span.begin),
                "to": None if span.end is None else _round(span.end),
                "usage": natural(span.usage),
                "ended_by": span.ended_by,
            }
            for span in spans
        ],
    }


def _queue(simulation: Simulation, name: str) -> dict[str, Any]:
    engine = simulation.engine
    queue, node = engine.setup.cluster_queues[name], engine.tree.queues[name]
    weighted = share(node).weighted
    return {
        "name": name,
        "cohort": queue.cohort,
        "active": name not in engine.inactive,
        "message": engine.inactive.get(name, "Can admit new workloads"),
        "nominal": natural({place: quota.nominal for place, quota in quotas(queue.groups)}),
        "pending": sum(1 for _ in engine.pending[name]),
        "admitted": len(engine.snapshot.held[name]),
        "weighted_share": None if math.isinf(weighted) else math.ceil(weighted),
        "usage": [
            {"at": _round(at), "flavors": natural(used)} for at, used in simulation.usage.get(name, [])
        ],
    }


def _at(simulation: Simulation, moment: float) -> float:
    return _round(moment - simulation.start)


def _round(seconds: float) -> float:
    return round(seconds, 6)


def _time(seconds: float) -> str | None:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat() if seconds else None
