"""Workloads: their list, and one with all that is known of it."""

from __future__ import annotations

from kueue.engine import Engine
from kueue.holders import position, positions
from kueue.item import ADMITTED, FINISHED, INACTIVE, PENDING, Item
from lab.api.queue import Description, Granted, JobEvent, Listing, Resets
from lab.daemons.queue import resets
from lab.daemons.queue.controller import Controller
from lab.daemons.queue.model import RESETTING, Record, StoredEvent
from lab.daemons.queue.views.rows import EVICTED, Plainly, amounts, find, pod_set, row, state_of
from lab.errors import NotFoundError, UsageError

ALL, UNFINISHED = "all", "unfinished"
STATUSES = (UNFINISHED, ALL, "pending", "admitted", "finished")

_ORDER = {EVICTED: 0, ADMITTED: 0, PENDING: 1, INACTIVE: 2, FINISHED: 3}


def workloads(
    controller: Controller, *, status: str = UNFINISHED, queue: str = "", limit: int = 0
) -> Listing:
    """Workloads in the order of their queues: those that hold quota, those that wait, the finished ones.

    `queue` is a LocalQueue, NAME or NAMESPACE/NAME; a `limit` of 0 is none. Raises UsageError, NotFoundError.
    """
    if status not in STATUSES:
        raise UsageError(f"status {status!r}: not one of {', '.join(STATUSES)}")
    engine = controller.engine
    doors = _doors(engine, queue) if queue else None
    rows: list[tuple[tuple[object, ...], Record, Item]] = []
    places = positions(engine)
    for number, record in enumerate(controller.records.values()):
        item = engine.items[record.key]
        state = state_of(item)
        if not _wanted(status, state) or (doors is not None and item.queue not in doors):
            continue
        where = places.get(record.key)
        place = number if where is None else where.in_cluster_queue
        order = (_ORDER[state], "" if state == FINISHED else item.cluster_queue)
        rows.append(((*order, -number if state == FINISHED else place), record, item))
    rows.sort(key=lambda row: row[0])
    shown, plainly = rows[:limit] if limit else rows, Plainly(controller)
    return Listing(
        workloads=tuple(
            row(controller, record, item, places.get(record.key), plainly) for _, record, item in shown
        ),
        total=len(rows),
        now=controller.clock(),
        away=dict(controller.away),
    )


def _wanted(status: str, state: str) -> bool:
    if status == UNFINISHED:
        return state != FINISHED
    if status == "admitted":
        return state in (ADMITTED, EVICTED)
    return status in (ALL, state.lower())


def _doors(engine: Engine, queue: str) -> set[tuple[str, str]]:
    """The LocalQueues of this name. Raises NotFoundError."""
    space, _, name = queue.rpartition("/")
    known = engine.setup.local_queues
    matches = {door for door in known if door[1] == name and space in ("", door[0])}
    if not matches:
        names = ", ".join(sorted("/".join(door) for door in known)) or "none"
        raise NotFoundError(f"there is no LocalQueue {queue}", f"known: {names}")
    return matches


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
