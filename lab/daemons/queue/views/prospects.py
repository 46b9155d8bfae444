"""Why a workload waits, who holds what is missing, and when it could start."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice

from kueue.engine import Engine
from kueue.forecast import Forecast, Outlook, outlook, usual_times
from kueue.holders import Holder, Position, Shortage, position
from kueue.item import ADMITTED, FINISHED, PENDING, Item
from kueue.model import Workload
from kueue.status import workload_of
from kueue.writing import natural
from lab.daemons.queue.model import DONE, Record
from lab.daemons.queue.reader import Document, Reader
from lab.daemons.queue.views.rows import EVICTED, Plainly, amount, find, pod_set, row, state_of

REMEMBERED = 1_000
"""Finished jobs from which usual times are taken, the newest."""


def why(reader: Reader, key: str) -> Document:
    """Why a workload waits, who holds what is missing, and when it could start. Raises NotFoundError."""
    with reader.lock:
        record, item = find(reader, key)
        engine, state, now = reader.engine, state_of(item), reader.clock()
        reason, message = engine.told(item)
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
    found = look() if look is not None else None
    return {**base, **_prospects(reader, found, now)}


def dry_run(reader: Reader, workload: Workload) -> Document:
    """What would be if this workload were submitted now, in the form of `why`."""
    with reader.lock:
        now = reader.clock()
        look = _Look(reader, workload.key, workload)
        away = dict(reader.away)
    found = look()
    return {
        "workload": None,
        "local_queue": workload.queue,
        "namespace": workload.namespace,
        "cluster_queue": found.cluster_queue,
        "priority": workload.priority,
        "status": ADMITTED if found.admitted else PENDING,
        "reason": "" if found.admitted else found.reason,
        "message": "" if found.admitted else found.message,
        "waits": found.waits,
        "flavors": found.flavors,
        **_place(found.position),
        "preempts": list(found.preempts),
        "pod_sets": [pod_set(each) for each in workload.pod_sets],
        "away": away,
        **_prospects(reader, found, now),
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
            spans = (each.ended_at - each.admitted_at for each in record.job.attempts if each.ended_at)
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
    for each in pending or ():
        if each is item:
            return before[:most]
        before.append(each.key)
    return []


def _prospects(reader: Reader, found: Outlook | None, now: float) -> Document:
    if found is None:
        return {"now": now, "missing": [], "holders": [], "forecast": None}
    with reader.lock:
        told = [_holder(reader, each) for each in found.holders]
    return {
        "now": now,
        "missing": [_shortage(each) for each in found.shortages],
        "holders": told,
        "forecast": _forecast(found.forecast, now),
    }


def _shortage(each: Shortage) -> Document:
    flavor, resource = each.place
    return {
        "flavor": flavor,
        "resource": resource,
        "missing": amount(resource, each.missing),
        "asked": amount(resource, each.asked),
    }


def _holder(reader: Reader, each: Holder) -> Document:
    record = reader.jobs.get(each.workload)
    return {
        "workload": each.workload,
        "job_name": "" if record is None else record.job.metadata.get("job_name", ""),
        "owner": "" if record is None else record.job.owner,
        "local_queue": "/".join(each.local_queue),
        "cluster_queue": each.cluster_queue,
        "priority": each.priority,
        "usage": natural(each.usage),
        "since": each.since,
        "leaving": each.leaving,
    }


def _forecast(found: Forecast, now: float) -> Document:
    return {
        "at": found.at,
        "seconds": None if found.at is None else round(max(0.0, found.at - now), 3),
        "why_not": found.why,
        "ends": [
            {
                "workload": each.workload,
                "at": each.at,
                "length": each.length.seconds,
                "basis": each.length.basis,
                "jobs": each.length.jobs,
            }
            for each in found.ends
        ],
        "unknown": list(found.unknown),
    }
