"""One workload with all that is known of it."""

from __future__ import annotations

from dataclasses import asdict

from kueue.holders import position
from kueue.item import Item
from lab.daemons.queue import resets
from lab.daemons.queue.model import RESETTING, Record
from lab.daemons.queue.reader import Document, Reader
from lab.daemons.queue.views.rows import Plainly, amounts, find, pod_set, row

LATEST = 1_000
"""Events of a workload that are told, the newest: a receipt needs those of every preemption."""


def describe(reader: Reader, key: str) -> Document:
    """Everything that is known of one workload. Raises NotFoundError."""
    record, item = find(reader, key)
    job, workload, engine = record.job, item.workload, reader.engine
    events = reader.events(limit=1_000_000, workload=record.key)[-LATEST:]
    return {
        **row(reader, record, item, position(engine, item), Plainly(reader)),
        "pod_sets": [pod_set(each) for each in workload.pod_sets],
        "granted": _granted(item),
        "active": item.active,
        "max_time": workload.max_execution,
        "preemption_grace": job.grace,
        "enforce": job.enforce,
        "takes": dict(job.takes),
        "requeues": item.requeues,
        "requeue_at": item.requeue_at,
        "stopping": None if record.stop is None else asdict(record.stop),
        "retry": _retry(record, item),
        "attempts_made": [asdict(each) for each in job.attempts],
        "events": [
            {
                "number": each.number,
                "at": each.change.at,
                "event": each.change.event,
                "reason": each.change.reason,
                "message": each.change.message,
                "cluster_queue": each.change.cluster_queue,
            }
            for each in events
        ],
        "now": reader.clock(),
        "away": dict(reader.away),
    }


def _retry(record: Record, item: Item) -> Document:
    """Policy and state of the resets; `phase` is AppWrapper's."""
    job, attempt = record.job, record.attempt
    between = record.phase == RESETTING and attempt is not None
    ended = [each for each in job.attempts if each.reset]
    return {
        "policy": None if job.retry is None else job.retry.document,
        "phase": resets.phase_of(record, item),
        "retries": job.retries,
        "resets": len(ended),
        "reason": ended[-1].reset if ended else "",
        "resumes_at": resets.resume_at(attempt) if between and attempt is not None else None,
    }


def _granted(item: Item) -> list[Document]:
    if item.admission is None:
        return []
    return [
        {"name": each.name, "count": each.count, "flavors": dict(each.flavors), "usage": amounts(each.usage)}
        for each in item.admission.pod_sets
    ]
