"""One workload with all that is known of it."""

from __future__ import annotations

from kueue.holders import position
from kueue.item import Item
from lab.api.queue import Description, Granted, JobEvent, Resets
from lab.daemons.queue import resets
from lab.daemons.queue.controller import Controller
from lab.daemons.queue.model import RESETTING, Record, StoredEvent
from lab.daemons.queue.views.rows import Plainly, amounts, find, pod_set, row

LATEST = 1_000
"""Events of a workload that are told, the newest: a receipt needs those of every preemption."""


def describe(controller: Controller, key: str) -> Description:
    """Everything that is known of one workload. Raises NotFoundError."""
    record, item = find(controller, key)
    job, workload, engine = record.job, item.workload, controller.engine
    events = controller.events(limit=1_000_000, workload=record.key)[-LATEST:]
    return Description(
        **vars(row(controller, record, item, position(engine, item), Plainly(controller))),
        pod_sets=tuple(pod_set(unit) for unit in workload.pod_sets),
        granted=_granted(item),
        active=item.active,
        max_time=workload.max_execution,
        preemption_grace=job.grace,
        enforce=job.enforce,
        takes=job.takes,
        requeues=item.requeues,
        requeue_at=item.requeue_at,
        stopping=record.stop,
        retry=_resets(record, item),
        attempts_made=job.attempts,
        events=tuple(_event(event) for event in events),
        now=controller.clock(),
        away=dict(controller.away),
    )


def _event(event: StoredEvent) -> JobEvent:
    change = event.change
    return JobEvent(
        event.number, change.at, change.event, change.reason, change.message, change.cluster_queue
    )


def _resets(record: Record, item: Item) -> Resets:
    job, attempt = record.job, record.attempt
    between = record.phase == RESETTING and attempt is not None
    ended = [attempt for attempt in job.attempts if attempt.reset]
    return Resets(
        policy=job.retry,
        phase=resets.phase_of(record, item),
        retries=job.retries,
        resets=len(ended),
        reason=ended[-1].reset if ended else "",
        resumes_at=resets.resume_at(attempt) if between and attempt is not None else None,
    )


def _granted(item: Item) -> tuple[Granted, ...]:
    if item.admission is None:
        return ()
    return tuple(
        Granted(pod_set.name, pod_set.count, dict(pod_set.flavors), amounts(pod_set.usage))
        for pod_set in item.admission.pod_sets
    )
