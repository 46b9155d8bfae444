"""Measures from the ledger what the loss of a rank cost a training, whatever its way of recovery."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from math import inf

from lab.api.ledger import CheckpointSaved, Reported
from lab.errors import JobError
from lab.evidence.ledger import Event, History, RecordedSteps, RunAttempt, number, of_kind, steps_of
from lab.evidence.receipt import FaultRecord
from lab.ext.fast_recovery.documents import Figures
from lab.host.quantities import rounded

BEFORE_SECONDS = 5.0
"""Time before the fault in which the usual speed is measured."""


@dataclass(frozen=True)
class StepRow:
    """The steps of one rank around the fault, by their times."""

    rank: int
    together: tuple[float, ...]
    """Those that all ranks took."""
    alone: tuple[float, ...]
    """Those without a lost one."""
    gap: tuple[float, float] | None = None
    """Beginning and end of the longest gap between two steps of a rank that was not lost."""


@dataclass(frozen=True)
class Measured(Figures):
    """The costs of one loss. Seconds count from the last step that all took; None for what did not happen.

    That is when the rank was lost, within a step: labctl's order to kill it takes a while to arrive.
    """

    rows: tuple[StepRow, ...] = ()
    """All steps of each rank, for the picture."""

    @property
    def figures(self) -> Figures:
        """The same as `--json` has it; seconds to the millisecond."""
        return Figures(**{field.name: rounded(getattr(self, field.name)) for field in fields(Figures)})


def measure(events: Sequence[Event], fault: FaultRecord) -> Measured:
    """Measure the training of these events of one job. Raises JobError where no step of it is recorded."""
    runs = History.of(events).runs
    started = [a for a in (runs[-1].attempts if runs else ()) if _started(a) <= fault.at]
    steps = steps_of(events)
    if not started or not steps.stretches:
        raise JobError("no step of the training is in its ledger", "look at the job's log: labctl jobs logs")
    nodes = started[-1].nodes_at(fault.at)
    lost = {rank for rank, node in nodes.items() if node == fault.node_id}
    kept = [rank for rank in steps.ranks if rank not in lost and rank in nodes]
    at = max((_last_together(steps, rank, fault.at, len(nodes)) for rank in kept), default=fault.at)
    back = _back_at(steps, lost, at, len(nodes))
    gaps = {rank: steps.longest_gap(rank, None, at, inf if back is None else back) for rank in kept}
    known = [gap[1] - gap[0] for gap in gaps.values() if gap is not None]
    failures = [t for attempt in runs[-1].attempts for t in attempt.failures if t >= fault.at]
    return Measured(
        detected=max(0.0, min(failures) - at) if failures else None,
        longest_gap=max(known, default=None),
        all_back=None if back is None else back - at,
        steps_repeated=max((_repeated(steps, rank) for rank in kept), default=0),
        stored_bytes=sum(_sizes(events)),
        sent_bytes=_sent(events),
        steps_per_second=_speed(steps, kept, at),
        rows=tuple(
            _row(steps, rank, at, len(nodes), gaps.get(rank), kept if rank in lost else ())
            for rank in sorted(nodes)
        ),
    )


def _started(attempt: RunAttempt) -> float:
    return inf if attempt.started_at is None else attempt.started_at


def _last_together(steps: RecordedSteps, rank: int, fault_at: float, ranks: int) -> float:
    """Return the time of the last step of a rank before it had to go on alone or in a new process.

    It is not before the fault: the rank was lost after it.
    """
    last, process = fault_at, None
    for stretch in (s for s in steps.stretches if s.rank == rank):
        if stretch.times[0] > fault_at and (stretch.process != process or stretch.ranks != ranks):
            break
        process = stretch.process
        last = max(last, stretch.times[-1])
    return last


def _back_at(steps: RecordedSteps, lost: set[int], at: float, ranks: int) -> float | None:
    """Return the time of the first step that all ranks took together, the lost ones in new processes."""
    old = {s.process for s in steps.stretches if s.rank in lost and s.times[0] <= at}
    first: dict[int, float] = {}
    for stretch in steps.stretches:
        if stretch.rank in lost and stretch.process not in old and stretch.ranks == ranks:
            first.setdefault(stretch.rank, stretch.times[0])
    return max(first.values()) if lost and first.keys() == lost else None


def _repeated(steps: RecordedSteps, rank: int) -> int:
    highest, repeated = 0, 0
    for _, step, _ in steps.of(rank):
        repeated += step <= highest
        highest = max(highest, step)
    return repeated


def _speed(steps: RecordedSteps, kept: Iterable[int], at: float) -> float | None:
    """Return the steps per second of the slowest rank right before a time."""
    speeds = []
    for rank in kept:
        times = [t for t, _, _ in steps.of(rank) if at - BEFORE_SECONDS <= t <= at]
        if len(times) > 1:
            speeds.append((len(times) - 1) / (times[-1] - times[0]))
    return min(speeds, default=None)


def _sizes(events: Iterable[Event]) -> Iterable[int]:
    for _, said in of_kind(events, CheckpointSaved):
        for file in (said.files or {}).values():
            yield int(file.size or 0)


def _sent(events: Iterable[Event]) -> int:
    """Return the sum over all processes of what each had sent by its last report."""
    last: dict[tuple[int, int | None], int] = {}
    for event, said in of_kind(events, Reported):
        sent = number(said.metrics.get("sent_bytes"))
        if sent is not None:
            key = (event.attempt, event.rank)
            last[key] = max(last.get(key, 0), int(sent))
    return sum(last.values())


def _row(
    steps: RecordedSteps,
    rank: int,
    at: float,
    ranks: int,
    gap: tuple[float, float] | None,
    partners: Sequence[int],
) -> StepRow:
    """Return the steps of a rank; of a lost one also those that it did not live to record.

    `partners` took those with it.
    """
    own = list(steps.of(rank))
    written = {step for t, step, _ in own if t <= at}
    shared = {
        step: (t, step, together)
        for partner in partners
        for t, step, together in steps.of(partner)
        if t <= at and together == ranks and step not in written
    }
    near = [(t - at, together) for t, _, together in sorted([*own, *shared.values()])]
    return StepRow(
        rank,
        tuple(t for t, together in near if together == ranks),
        tuple(t for t, together in near if together < ranks),
        None if gap is None else (gap[0] - at, gap[1] - at),
    )


def within(row: StepRow, begin: float, end: float) -> StepRow:
    """Return the row with only the steps of this time."""
    together, alone = (tuple(t for t in times if begin <= t <= end) for times in (row.together, row.alone))
    return replace(row, together=together, alone=alone)
