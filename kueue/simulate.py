"""A run of the queues on a virtual clock: what would happen to these workloads, and when."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kueue.engine import Engine
from kueue.item import ADMITTED, Item
from kueue.model import FlavorResource, Setup, Workload
from kueue.places import Change

End = tuple[float, int, str, float, str]
"""What is foreseen for a workload: when, a serial number, its key, when it was admitted, `end` or `ready`."""


@dataclass(frozen=True)
class Span:
    """A stretch of time in which a workload held quota; `end` is None while it still does."""

    workload: str
    cluster_queue: str
    usage: dict[FlavorResource, int]
    begin: float
    end: float | None = None
    ended_by: str = ""


@dataclass
class Simulation:
    """A finished run. Times are seconds since its start, `start` is when that is."""

    engine: Engine
    start: float
    end: float = 0.0
    changes: list[Change] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    usage: dict[str, list[tuple[float, dict[FlavorResource, int]]]] = field(default_factory=dict)


def simulate(
    setup: Setup, workloads: Sequence[Workload], *, cycles: int | None = None, until: float | None = None
) -> Simulation:
    """Let the workloads through the queues: for some cycles at the start, or until nothing more happens.

    The start is the last moment that a status tells of, else the first creation. With `cycles`, all that
    was created later is there too. `until` is in seconds after the start.
    """
    run = SimulationRun(setup, workloads, everything=cycles is not None)
    if cycles is not None:
        run.at_start(cycles)
    else:
        run.at_start()
        run.to_the_end(until)
    return run.close(until)


def endless(setup: Setup, workloads: Iterable[Workload]) -> str:
    """The first workload that may be started and given up again without end, or nothing."""
    config = setup.config.pods_ready
    if config is None or config.backoff_limit is not None:
        return ""
    tried = (
        workload for workload in workloads if workload.active and not workload.finished and not workload.ready
    )
    return next(
        (
            workload.key
            for workload in tried
            if workload.ready_after is None and workload.duration is None and workload.max_execution is None
        ),
        "",
    )


class SimulationRun:
    """A simulation while it runs."""

    def __init__(
        self,
        setup: Setup,
        workloads: Sequence[Workload],
        *,
        everything: bool = False,
        start: float | None = None,
    ) -> None:
        """Begin at `start`, or where the workloads say; with `everything`, all of them are there then."""
        start = _start(workloads, everything) if start is None else start
        self.result = Simulation(Engine(setup), start)
        self.engine = self.result.engine
        self.now = start
        ordered = sorted(
            workloads, key=lambda workload: (workload.created, workload.order, workload.uid, workload.key)
        )
        self._arrivals = [
            workload for workload in reversed(ordered) if workload.created > start and not everything
        ]
        present = {workload.key for workload in self._arrivals}
        self._present = [workload for workload in ordered if workload.key not in present]
        self._ends: list[End] = []
        self._serial = 0
        self._open: dict[str, Span] = {}

    def at_start(self, cycles: int | None = None) -> None:
        """Take in what is there, and make the first cycles."""
        for workload in self._present:
            changes = self.engine.submit(workload, self.now)
            item = self.engine.items[workload.key]
            if item.state == ADMITTED:
                self._begun(item)
            self._note(changes)
        self._note(self.engine.drain(self.now))
        self.engine.sample(self.now)
        if cycles is None:
            self._settle()
        else:
            self._note(self.engine.settle(self.now, cycles))
        self._record()

    def to_the_end(self, until: float | None) -> None:
        """Go from one moment at which something happens to the next."""
        last = None if until is None else self.result.start + until
        while self.step(last):
            pass

    def step(self, last: float | None = None) -> bool:
        """Go to the next moment at which something happens; False where there is none until `last`."""
        moment = self._next()
        if moment is None or (last is not None and moment > last):
            return False
        self.now = moment
        while self._arrivals and self._arrivals[-1].created <= moment:
            self._note(self.engine.submit(self._arrivals.pop(), moment))
        while self._ends and self._ends[0][0] <= moment:
            self._over(heapq.heappop(self._ends))
        self._note(self.engine.due(moment))
        history = self.engine.history
        if history is not None and history.next_sample(moment) <= moment:
            self.engine.sample(moment)
        self._settle()
        self._record()
        return True

    def close(self, until: float | None) -> Simulation:
        """Finish the books."""
        result = self.result
        result.end = self.now - result.start if until is None else max(until, self.now - result.start)
        result.spans += self._open.values()
        result.spans.sort(key=lambda span: (span.begin, span.workload))
        return result

    # One moment

    def _next(self) -> float | None:
        times = [self.engine.next_due()]
        if self._arrivals:
            times.append(self._arrivals[-1].created)
        while self._ends and self._stopped(self._ends[0]):
            heapq.heappop(self._ends)
        if self._ends:
            times.append(self._ends[0][0])
        moment = min((time for time in times if time is not None), default=None)
        history = self.engine.history
        if moment is not None and history is not None:
            held = (item for held in self.engine.snapshot.held.values() for item in held.values())
            waiting = [pending.local_queues() for pending in self.engine.pending.values() if pending.by_usage]
            moment = min(moment, history.skip(self.now, moment, held, waiting))
        return None if moment is None else max(moment, self.now)

    def _settle(self) -> None:
        """Make cycles until nothing changes, also by pods that are ready at once."""
        before = -1
        while before != len(self.result.changes):
            before = len(self.result.changes)
            self._note(self.engine.settle(self.now))
            while self._ends and self._ends[0][0] <= self.now and self._ends[0][4] == "ready":
                self._over(heapq.heappop(self._ends))

    def _stopped(self, end: End) -> bool:
        """Tell if the workload was stopped before what was foreseen for it."""
        item = self.engine.items[end[2]]
        return item.state != ADMITTED or (item.admitted_at or 0.0) != end[3]

    def _over(self, end: End) -> None:
        """Do what was foreseen for a workload, unless it was stopped meanwhile."""
        if self._stopped(end):
            return
        _, _, key, _, kind = end
        if kind == "ready":
            self.engine.set_ready(key, True, self.now)
        else:
            self._note(self.engine.finish(key, self.now))

    def _begun(self, item: Item) -> None:
        """Foresee the end of a workload that now holds quota."""
        began, workload = item.since(self.now), item.workload
        self._open[item.key] = Span(item.key, item.cluster_queue, dict(item.usage), began - self.result.start)
        if workload.duration is not None:
            self._foresee(max(self.now, began + workload.duration - item.executed), item, "end")
        if workload.ready_after is not None and not item.ready:
            self._foresee(max(self.now, began + workload.ready_after), item, "ready")

    def _foresee(self, at: float, item: Item, kind: str) -> None:
        self._serial += 1
        heapq.heappush(self._ends, (at, self._serial, item.key, item.admitted_at or 0.0, kind))

    def _note(self, changes: Iterable[Change]) -> None:
        for change in changes:
            self.result.changes.append(change)
            if change.event == "Admitted":
                self._begun(self.engine.items[change.workload])
            elif change.event in ("Finished", "Requeued", "Deactivated"):
                self._ended(change)

    def _ended(self, change: Change) -> None:
        span = self._open.pop(change.workload, None)
        if span is not None:
            end = self.now - self.result.start
            self.result.spans.append(
                Span(span.workload, span.cluster_queue, span.usage, span.begin, end, change.reason)
            )

    def _record(self) -> None:
        """Note the usage of every queue in which it changed."""
        at = self.now - self.result.start
        for name, node in self.engine.tree.queues.items():
            seen = self.result.usage.setdefault(name, [])
            used = {place: value for place, value in node.usage.items() if value}
            if not seen or seen[-1][1] != used:
                seen.append((at, used))


def _start(workloads: Sequence[Workload], everything: bool) -> float:
    recorded = [
        time
        for workload in workloads
        for time in (workload.reserved_at, workload.admitted_at, workload.evicted_at)
        if time is not None
    ]
    created = [workload.created for workload in workloads if not workload.order] or [
        workload.created for workload in workloads
    ]
    if everything or (recorded and not created):
        return max([*recorded, *created], default=0.0)
    return max(recorded) if recorded else min(created, default=0.0)
