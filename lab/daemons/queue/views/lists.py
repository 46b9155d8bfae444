"""Workloads as a list."""

from __future__ import annotations

from kueue.engine import Engine
from kueue.holders import positions
from kueue.item import ADMITTED, FINISHED, INACTIVE, PENDING, Item
from lab.api.queue import Listing
from lab.daemons.queue.controller import Controller
from lab.daemons.queue.model import Record
from lab.daemons.queue.views.rows import EVICTED, Plainly, row, state_of
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
