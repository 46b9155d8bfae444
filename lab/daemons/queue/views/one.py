"""One workload with all that is known of it."""

from __future__ import annotations

from dataclasses import asdict

from lab.daemons.queue import resets
from lab.daemons.queue.model import RESETTING, Record
from lab.daemons.queue.reader import Document, Reader
from lab.daemons.queue.views.rows import Plainly, amounts, find, pod_set, row
from lab.queue.holders import position
from lab.queue.item import Item

LATEST = 1_000
"""Events of a workload that are told, the newest: a receipt needs those of every preemption."""


def describe(reader: Reader, key: str) -> Document:
    """Everything that is known of one workload. Raises NotFoundError."""
    record, item = find(reader, key)
    job, workload, engine = record.job, item.workload, reader.engine
    events = reader.events(limit=1_000_000, workload=record.key)[-LATEST:]
    return {
        **row(reader, record, item, position(engine, item), Plainly(reader)),
        "pod_sets": [pod_set(requested) for requested in workload.pod_sets],
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
        "attempts_made": [asdict(attempt) for attempt in job.attempts],
        "events": [
            {
                "number": event.number,
                "at": event.change.at,
                "event": event.change.event,
                "reason": event.change.reason,
                "message": event.change.message,
                "cluster_queue": event.change.cluster_queue,
            }
            for event in events
        ],
        "now": reader.clock(),
        "away": dict(reader.away),
    }


def _retry(record: Record, item: Item) -> Document:
    """Policy and state of the resets; `phase` is AppWrapper's."""
    job, attempt = record.job, record.attempt
    between = record.phase == RESETTING and attempt is not None
    ended = [attempt for attempt in job.attempts if attempt.reset]
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
        {
            "name": pod_set.name,
            "count": pod_set.count,
            "flavors": dict(pod_set.flavors),
            "usage": amounts(pod_set.usage),
        }
        for pod_set in item.admission.pod_sets
    ]
