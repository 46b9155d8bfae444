"""Earliest start of a workload: the queues run forward from where they are, on what is known of lengths.

Lengths are time limits, else the usual time of such jobs. A job with neither never ends here.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from kueue import reasons
from kueue.engine import Engine
from kueue.history import UsageHistory
from kueue.holders import Holder, Position, Shortage, holders, position, shortages
from kueue.item import ADMITTED, PENDING, Item
from kueue.model import FlavorResource, Setup, Workload
from kueue.plainly import Name, waits, whose
from kueue.simulate import SimulationRun

LIMIT, USUAL = "time limit", "usual time"

MOST_MOMENTS = 5_000
"""Moments that are run forward at most."""

FOR_EVER = (
    reasons.EXCEEDS_MAX_QUOTA,
    reasons.NO_MATCHING_FLAVOR,
    reasons.MISCONFIGURED,
    reasons.SUSPENDED,
)
"""Reasons that no end of another workload takes away."""

NEVER, UNKNOWN, FAR = "never", "unknown", "far"


@dataclass(frozen=True)
class Length:
    """Time that a job takes in all, in seconds; `jobs` counts the finished ones that a usual time is from."""

    seconds: float
    basis: str = LIMIT
    jobs: int = 0


@dataclass(frozen=True)
class End:
    """An end that a forecast counts on."""

    workload: str
    at: float
    length: Length


@dataclass(frozen=True)
class Forecast:
    """The earliest start, in seconds since the epoch; None where it is not known.

    `why` says then: `never` as things are, `unknown` since the jobs in `unknown` have no known length, or
    `far` where it lies too far ahead.
    """

    at: float | None = None
    ends: tuple[End, ...] = ()
    unknown: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Outlook:
    """A workload's prospects: where it is at the first moment, and when it could start."""

    admitted: bool
    cluster_queue: str
    reason: str
    message: str
    flavors: dict[str, dict[str, str]]
    preempts: tuple[str, ...]
    position: Position | None
    shortages: tuple[Shortage, ...]
    holders: tuple[Holder, ...]
    waits: str = ""
    """The reason in a sentence for people."""
    forecast: Forecast = Forecast()


def usual_times(finished: Iterable[tuple[str, float]]) -> dict[str, Length]:
    """The median time of finished jobs of each kind, given as kind and seconds."""
    times: dict[str, list[float]] = {}
    for kind, seconds in finished:
        times.setdefault(kind, []).append(seconds)
    return {kind: Length(median(seconds), USUAL, len(seconds)) for kind, seconds in times.items()}


def length_of(workload: Workload, usual: Length | None) -> Length | None:
    """The length that a forecast counts on; None where nothing is known."""
    return usual if workload.max_execution is None else Length(workload.max_execution)


def outlook(
    setup: Setup,
    workloads: Sequence[Workload],
    now: float,
    key: str,
    usual: Mapping[str, Length],
    *,
    history: UsageHistory | None = None,
    moments: int = MOST_MOMENTS,
    name: Name = whose,
) -> Outlook:
    """Look ahead for the workload `key`, one of `workloads`, which are all that is not finished.

    `usual` has the usual time of a workload where one is known, `history` what LocalQueues used so far;
    `name` says whose a holder is.
    """
    lengths = {workload.key: length_of(workload, usual.get(workload.key)) for workload in workloads}
    run = SimulationRun(
        setup, [_timed(workload, lengths[workload.key]) for workload in workloads], everything=True, start=now
    )
    if run.engine.history is not None and history is not None:
        run.engine.history.take_over(copy.deepcopy(history))
    run.at_start()
    engine, item = run.engine, run.engine.items[key]
    reason, message = engine.condition(item)
    short = shortages(engine, item) if item.state == PENDING and reason not in FOR_EVER else ()
    first = Outlook(
        admitted=item.state == ADMITTED,
        cluster_queue=item.cluster_queue,
        reason=reason,
        message=message,
        flavors={} if item.admission is None else item.admission.flavors(),
        preempts=tuple(change.workload for change in run.result.changes if change.event == "Preempted"),
        position=position(engine, item),
        shortages=short,
        holders=holders(engine, item, short),
        waits=waits(engine, item, name),
    )
    return replace(first, forecast=_forecast(run, item, short, lengths, moments))


def _timed(workload: Workload, length: Length | None) -> Workload:
    """The workload with its length; a limit ends it by itself. Its pods run from its admission on."""
    usual = length.seconds if length is not None and length.basis == USUAL else None
    return replace(workload, duration=usual, ready_after=0.0)


def _forecast(
    run: SimulationRun,
    item: Item,
    short: tuple[Shortage, ...],
    lengths: Mapping[str, Length | None],
    moments: int,
) -> Forecast:
    """Run on until the workload holds quota, or nothing more happens."""
    engine, places = run.engine, {shortage.place for shortage in short}
    if item.state == PENDING and engine.condition(item)[0] in FOR_EVER:
        return Forecast(why=NEVER)
    left = moments
    while item.state == PENDING and left and run.step():
        left -= 1
    if item.state == ADMITTED:
        return Forecast(item.since(run.now), tuple(_ends(run, item, places, lengths)))
    unknown = tuple(_without_length(engine, item, lengths))
    return Forecast(unknown=unknown, why=UNKNOWN if unknown else NEVER if left else FAR)


def _ends(
    run: SimulationRun, item: Item, places: set[FlavorResource], lengths: Mapping[str, Length | None]
) -> Iterator[End]:
    """Ends before the start of the workload that free what it was short of, in their order."""
    start = item.since(run.now)
    for span in sorted(run.result.spans, key=lambda span: (span.end or 0.0, span.workload)):
        at, length = run.result.start + (span.end or 0.0), lengths.get(span.workload)
        finished = span.ended_by in ("Succeeded", reasons.EXECUTION_TIME) and at <= start
        freed = not places or not places.isdisjoint(span.usage)
        if span.workload != item.key and finished and freed and length is not None:
            yield End(span.workload, at, length)


def _without_length(engine: Engine, item: Item, lengths: Mapping[str, Length | None]) -> Iterator[str]:
    """Workloads that hold what this one waits for, or anything in its family, and never end."""
    keys = [holder.workload for holder in holders(engine, item, shortages(engine, item))]
    if not keys:
        root = engine.tree.queues[item.cluster_queue].root
        names = {item.cluster_queue, *(queue.name for queue in root.all_queues())}
        keys = [key for name in sorted(names) for key in engine.snapshot.held[name]]
    return (key for key in keys if lengths.get(key) is None)
