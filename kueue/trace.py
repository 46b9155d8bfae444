"""A simulation as a JSON document of the schema `queue-simulation/1`."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from datetime import datetime, timezone
from typing import Any

from kueue.item import PENDING, Item
from kueue.model import quotas
from kueue.plainly import waits, whose
from kueue.shares import share
from kueue.simulate import Simulation, Span
from kueue.writing import natural

SCHEMA = "queue-simulation/1"


def document(found: Simulation) -> dict[str, Any]:
    """The whole run; times are in seconds after its start."""
    engine = found.engine
    spans: dict[str, list[Span]] = defaultdict(list)
    for span in found.spans:
        spans[span.workload].append(span)
    positions = {item.key: place for pending in engine.pending.values() for place, item in enumerate(pending)}
    counts = Counter(each.workload for each in found.changes if each.event == "Preempted")
    finished = {each.workload: _at(found, each.at) for each in found.changes if each.event == "Finished"}
    return {
        "schema": SCHEMA,
        "start": _time(found.start),
        "end": _round(found.end),
        "cycles": engine.cycles,
        "restless": sorted(_at(found, each) for each in engine.restless),
        "events": [
            {
                "at": _at(found, each.at),
                "event": each.event,
                "workload": each.workload,
                "reason": each.reason,
                "message": each.message,
                "cluster_queue": each.cluster_queue,
                "flavors": each.flavors,
            }
            for each in found.changes
        ],
        "workloads": [
            {
                **_workload(found, item, spans[key]),
                "position": positions.get(key) if item.state == PENDING else None,
                "preemptions": counts[key],
                "finished_at": finished.get(key),
            }
            for key, item in engine.items.items()
        ],
        "cluster_queues": [_queue(found, name) for name in engine.setup.cluster_queues],
    }


def _workload(found: Simulation, item: Item, spans: list[Span]) -> dict[str, Any]:
    reason, message = found.engine.told(item)
    admission = item.admission
    created = max(0.0, item.workload.created - found.start)
    return {
        "workload": item.key,
        "local_queue": item.queue[1],
        "cluster_queue": item.cluster_queue,
        "priority": item.priority,
        "state": item.state,
        "reason": reason,
        "message": message,
        "waits": waits(found.engine, item, whose),
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


def _queue(found: Simulation, name: str) -> dict[str, Any]:
    engine = found.engine
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
        "usage": [{"at": _round(at), "flavors": natural(used)} for at, used in found.usage.get(name, [])],
    }


def _at(found: Simulation, moment: float) -> float:
    return _round(moment - found.start)


def _round(seconds: float) -> float:
    return round(seconds, 6)


def _time(seconds: float) -> str | None:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat() if seconds else None
