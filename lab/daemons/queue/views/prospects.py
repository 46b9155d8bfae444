"""Why a workload waits, who holds what is missing, and when it could start."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from itertools import islice

from kueue.engine import Engine
from kueue.forecast import End, Forecast, Outlook, outlook, usual_times
from kueue.holders import Holder, Shortage, position
from kueue.item import ADMITTED, FINISHED, PENDING, Item
from kueue.model import Workload
from kueue.status import workload_of
from kueue.writing import natural
from lab.api.queue import DryRun, EndView, ForecastView, HolderView, Missing, Why
from lab.daemons.queue.controller import Controller
from lab.daemons.queue.model import DONE, Record
from lab.daemons.queue.views.rows import Plainly, amount, find, pod_set, row, state_of

REMEMBERED = 1_000
"""Finished jobs from which usual times are taken, the newest."""


def why(controller: Controller, key: str) -> Why:
    """Why a workload waits, who holds what is missing, and when it could start. Raises NotFoundError."""
    with controller.lock:
        record, item = find(controller, key)
        engine, now = controller.engine, controller.clock()
        place = position(engine, item)
        look = _Look(controller, record.key) if state_of(item) == PENDING else None
        base = vars(row(controller, record, item, place, Plainly(controller)))
        ahead, away = _ahead(engine, item), dict(controller.away)
    outlook = look() if look is not None else None
    return Why(
        **base,
        of_cluster_queue=None if place is None else place.of_cluster_queue,
        of_local_queue=None if place is None else place.of_local_queue,
        ahead=ahead,
        away=away,
        now=now,
        missing=_missing(outlook),
        holders=_holders(controller, outlook),
        forecast=None if outlook is None else _forecast(outlook.forecast, now),
    )


def dry_run(controller: Controller, workload: Workload) -> DryRun:
    """What would be if this workload were submitted now. Nothing is changed."""
    with controller.lock:
        now = controller.clock()
        look = _Look(controller, workload.key, workload)
        away = dict(controller.away)
    outlook = look()
    place = outlook.position
    return DryRun(
        local_queue=workload.queue,
        namespace=workload.namespace,
        cluster_queue=outlook.cluster_queue,
        priority=workload.priority,
        status=ADMITTED if outlook.admitted else PENDING,
        reason="" if outlook.admitted else outlook.reason,
        message="" if outlook.admitted else outlook.message,
        waits=outlook.waits,
        flavors=outlook.flavors,
        position_in_cluster_queue=None if place is None else place.in_cluster_queue,
        of_cluster_queue=None if place is None else place.of_cluster_queue,
        position_in_local_queue=None if place is None else place.in_local_queue,
        of_local_queue=None if place is None else place.of_local_queue,
        preempts=outlook.preempts,
        pod_sets=tuple(pod_set(requested) for requested in workload.pod_sets),
        away=away,
        now=now,
        missing=_missing(outlook),
        holders=_holders(controller, outlook),
        forecast=_forecast(outlook.forecast, now),
    )


class _Look:
    """A look ahead on a copy of what is there: it needs no lock, and may take its time."""

    def __init__(self, controller: Controller, key: str, *more: Workload) -> None:
        engine = controller.engine
        self.key, self.now, self.name = key, controller.clock(), Plainly(controller).name
        self.setup, self.history = engine.setup, engine.history
        kinds: dict[str, str] = {}
        self.workloads = [*more]
        for record in controller.records.values():
            item = engine.items[record.key]
            if item.state != FINISHED:
                self.workloads.append(workload_of(item))
                kinds[record.key] = _kind(record)
        times = usual_times(islice(_times(controller.records.values()), REMEMBERED))
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


def _ahead(engine: Engine, item: Item, most: int = 5) -> tuple[str, ...]:
    """The next workloads before this one in its ClusterQueue, those that come first first."""
    pending = engine.pending.get(item.cluster_queue)
    before: list[str] = []
    for waiting in pending or ():
        if waiting is item:
            return tuple(before[:most])
        before.append(waiting.key)
    return ()


def _missing(outlook: Outlook | None) -> tuple[Missing, ...]:
    return () if outlook is None else tuple(_shortage(shortage) for shortage in outlook.shortages)


def _shortage(shortage: Shortage) -> Missing:
    flavor, resource = shortage.place
    return Missing(flavor, resource, amount(resource, shortage.missing), amount(resource, shortage.asked))


def _holders(controller: Controller, outlook: Outlook | None) -> tuple[HolderView, ...]:
    with controller.lock:
        return () if outlook is None else tuple(_holder(controller, holder) for holder in outlook.holders)


def _holder(controller: Controller, holder: Holder) -> HolderView:
    record = controller.records.get(holder.workload)
    return HolderView(
        workload=holder.workload,
        job_name="" if record is None else record.job.metadata.get("job_name", ""),
        owner="" if record is None else record.job.owner,
        local_queue="/".join(holder.local_queue),
        cluster_queue=holder.cluster_queue,
        priority=holder.priority,
        usage=natural(holder.usage),
        since=holder.since,
        leaving=holder.leaving,
    )


def _forecast(forecast: Forecast, now: float) -> ForecastView:
    return ForecastView(
        at=forecast.at,
        seconds=None if forecast.at is None else round(max(0.0, forecast.at - now), 3),
        why_not=forecast.why,
        ends=tuple(_end(end) for end in forecast.ends),
        unknown=forecast.unknown,
    )


def _end(end: End) -> EndView:
    return EndView(end.workload, end.at, end.length.seconds, end.length.basis, end.length.jobs)
