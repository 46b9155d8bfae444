"""Why a workload waits, who holds what is missing, and when it could start."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice

from lab.daemons.queue.model import DONE, Record
from lab.daemons.queue.reader import Document, Reader
from lab.daemons.queue.views.rows import EVICTED, Plainly, amount, find, pod_set, row, state_of
from lab.queue.engine import Engine
from lab.queue.forecast import Forecast, Outlook, outlook, usual_times
from lab.queue.holders import Holder, Position, Shortage, position
from lab.queue.item import ADMITTED, FINISHED, PENDING, Item
from lab.queue.model import Workload
from lab.queue.status import workload_of
from lab.queue.writing import natural

REMEMBERED = 1_000
"""Finished jobs from which usual times are taken, the newest."""


def why(reader: Reader, key: str) -> Document:
    """Why a workload waits, who holds what is missing, and when it could start. Raises NotFoundError."""
    with reader.lock:
        record, item = find(reader, key)
        engine, state, now = reader.engine, state_of(item), reader.clock()
        reason, message = engine.condition(item)
        place = position(engine, item)
        look = _Look(reader, record.key) if state == PENDING else None
        base = {
            **row(reader, record, item, place, Plainly(reader)),
            **_place(place),
            "reason": item.evicted if state == EVICTED else reason,
            "message": message,
            "ahead": _ahead(engine, item),
            "away": dict(reader.away),
        }
    prospect = look() if look is not None else None
    return {**base, **_prospects(reader, prospect, now)}


def dry_run(reader: Reader, workload: Workload) -> Document:
    """What would be if this workload were submitted now, in the form of `why`."""
    with reader.lock:
        now = reader.clock()
        look = _Look(reader, workload.key, workload)
        away = dict(reader.away)
    prospect = look()
    return {
        "workload": None,
        "local_queue": workload.queue,
        "namespace": workload.namespace,
        "cluster_queue": prospect.cluster_queue,
        "priority": workload.priority,
        "status": ADMITTED if prospect.admitted else PENDING,
        "reason": "" if prospect.admitted else prospect.reason,
        "message": "" if prospect.admitted else prospect.message,
        "waits": prospect.waits,
        "flavors": prospect.flavors,
        **_place(prospect.position),
        "preempts": list(prospect.preempts),
        "pod_sets": [pod_set(requested) for requested in workload.pod_sets],
        "away": away,
        **_prospects(reader, prospect, now),
    }


class _Look:
    """A look ahead on a copy of what is there: it needs no lock, and may take its time."""

    def __init__(self, reader: Reader, key: str, *more: Workload) -> None:
        engine = reader.engine
        self.key, self.now, self.name = key, reader.clock(), Plainly(reader).name
        self.setup, self.history = engine.setup, engine.history
        kinds: dict[str, str] = {}
        self.workloads = [*more]
        for record in reader.jobs.values():
            item = engine.items[record.key]
            if item.state != FINISHED:
                self.workloads.append(workload_of(item))
                kinds[record.key] = _kind(record)
        times = usual_times(islice(_times(reader.jobs.values()), REMEMBERED))
        self.usual = {key: times[kind] for key, kind in kinds.items() if kind in times}

    def __call__(self) -> Outlook:
        given = self.setup, self.workloads, self.now, self.key, self.usual
        return outlook(*given, history=self.history, name=self.name)


def _kind(record: Record) -> str:
    """Jobs of one kind take about as long: those of a recipe, or of the same command."""
    return record.job.recipe or shlex.join(record.job.command)


def _times(records: Iterable[Record]) -> Iterator[tuple[str, float]]:
    """Kind and time of jobs that succeeded, the newest first: all attempts together."""
    for record in reversed(list(records)):
        last = record.attempt
        if record.phase == DONE and last is not None and last.ended == "SUCCEEDED":
            spans = (
                attempt.ended_at - attempt.admitted_at for attempt in record.job.attempts if attempt.ended_at
            )
            yield _kind(record), sum(spans)


def _place(place: Position | None) -> Document:
    names = ("position_in_cluster_queue", "of_cluster_queue", "position_in_local_queue", "of_local_queue")
    if place is None:
        return dict.fromkeys(names)
    return dict(zip(names, asdict(place).values(), strict=True))


def _ahead(engine: Engine, item: Item, most: int = 5) -> list[str]:
    """The next workloads before this one in its ClusterQueue, those that come first first."""
    pending = engine.pending.get(item.cluster_queue)
    before: list[str] = []
    for waiting in pending or ():
        if waiting is item:
            return before[:most]
        before.append(waiting.key)
    return []


def _prospects(reader: Reader, prospect: Outlook | None, now: float) -> Document:
    if prospect is None:
        return {"now": now, "missing": [], "holders": [], "forecast": None}
    with reader.lock:
        holders = [_holder(reader, holder) for holder in prospect.holders]
    return {
        "now": now,
        "missing": [_shortage(shortage) for shortage in prospect.shortages],
        "holders": holders,
        "forecast": _forecast(prospect.forecast, now),
    }


def _shortage(shortage: Shortage) -> Document:
    flavor, resource = shortage.place
    return {
        "flavor": flavor,
        "resource": resource,
        "missing": amount(resource, shortage.missing),
        "asked": amount(resource, shortage.asked),
    }


def _holder(reader: Reader, holder: Holder) -> Document:
    record = reader.jobs.get(holder.workload)
    return {
        "workload": holder.workload,
        "job_name": "" if record is None else record.job.metadata.get("job_name", ""),
        "owner": "" if record is None else record.job.owner,
        "local_queue": "/".join(holder.local_queue),
        "cluster_queue": holder.cluster_queue,
        "priority": holder.priority,
        "usage": natural(holder.usage),
        "since": holder.since,
        "leaving": holder.leaving,
    }


def _forecast(forecast: Forecast, now: float) -> Document:
    return {
        "at": forecast.at,
        "seconds": None if forecast.at is None else round(max(0.0, forecast.at - now), 3),
        "why_not": forecast.why,
        "ends": [
            {
                "workload": end.workload,
                "at": end.at,
                "length": end.length.seconds,
                "basis": end.length.basis,
                "jobs": end.length.jobs,
            }
            for end in forecast.ends
        ],
        "unknown": list(forecast.unknown),
    }
