"""A workload as a row, which all documents share, and the way to find one."""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Iterator, Mapping

from kueue.holders import Holder, Position
from kueue.item import ADMITTED, Item
from kueue.model import PodSet
from kueue.plainly import waits, whose
from kueue.quantity import CPU
from kueue.reading import DEFAULT_NAMESPACE
from lab.api.base import Number
from lab.api.queue import PodSetView, Row
from lab.cluster.queues import ANYWHERE
from lab.daemons.queue.controller import Controller
from lab.daemons.queue.model import Record
from lab.errors import NotFoundError

EVICTED = "Evicted"
"""Status of a workload that is being stopped and still holds its quota."""


def state_of(item: Item) -> str:
    """Status of a workload: Pending, Admitted, Evicted, Deactivated or Finished."""
    return EVICTED if item.state == ADMITTED and item.evicted else item.state


class Plainly:
    """Reasons of waiting jobs in sentences for people; those of the same shape in one queue have the same."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._known: dict[Hashable, str] = {}

    def __call__(self, item: Item) -> str:
        """The sentence of a job; empty for one that does not wait."""
        engine = self._controller.engine
        key = (item.cluster_queue, item.state, item.shape, engine.condition(item))
        if key not in self._known:
            self._known[key] = waits(engine, item, self.name)
        return self._known[key]

    def name(self, holder: Holder) -> str:
        """The namespace of a holder; in the one that is everybody's, who submitted it."""
        record = self._controller.records.get(holder.workload)
        owner = "" if record is None else record.job.owner
        return owner if owner and holder.local_queue[0] == DEFAULT_NAMESPACE else whose(holder)


def row(controller: Controller, record: Record, item: Item, where: Position | None, plainly: Plainly) -> Row:
    engine, now = controller.engine, controller.clock()
    reason, message = engine.condition(item)
    job, attempt = record.job, record.attempt
    running = item.state == ADMITTED and item.admitted_at is not None
    return Row(
        workload=record.key,
        namespace=item.workload.namespace,
        name=item.workload.name,
        job_name=job.metadata.get("job_name", ""),
        recipe=job.recipe,
        command=shlex.join(job.command),
        owner=job.owner,
        local_queue=item.queue[1],
        cluster_queue=item.cluster_queue,
        priority=item.priority,
        priority_class=job.priority_class,
        status=state_of(item),
        phase=record.phase,
        reason=item.evicted if state_of(item) == EVICTED else reason,
        message=message,
        waits=plainly(item),
        position_in_cluster_queue=None if where is None else where.in_cluster_queue,
        position_in_local_queue=None if where is None else where.in_local_queue,
        created=record.created,
        admitted_at=item.admitted_at,
        finished_at=record.finished_at,
        executed=round(item.executed + (now - item.since(now) if running else 0.0), 3),
        attempts=len(job.attempts),
        submission_id="" if attempt is None else attempt.submission_id,
        takes_more=bool(job.takes),
    )


def find(controller: Controller, key: str) -> tuple[Record, Item]:
    """A workload by NAMESPACE/NAME; with the namespace `*` also by the id of one of its attempts.

    Raises NotFoundError.
    """
    records = controller.records
    record = records.get(key)
    space, _, name = key.partition("/")
    if record is None and space == ANYWHERE:
        record = next((candidate for candidate in records.values() if name in _ids(candidate)), None)
    if record is None:
        latest = ", ".join(list(records)[:-6:-1]) or "none"
        wanted = name if space == ANYWHERE else key
        raise NotFoundError(f"there is no job {wanted!r} in the queues", f"the latest: {latest}")
    return record, controller.engine.items[record.key]


def _ids(record: Record) -> Iterator[str]:
    yield record.name
    yield from (attempt.submission_id for attempt in record.job.attempts)


def pod_set(pod_set: PodSet) -> PodSetView:
    return PodSetView(pod_set.name, pod_set.count, pod_set.min_count, amounts(pod_set.requests))


def amounts(amounts: Mapping[str, int]) -> dict[str, Number]:
    return {name: amount(name, value) for name, value in amounts.items()}


def amount(resource: str, value: int) -> Number:
    return value / 1000 if resource == CPU else value
