"""Stages of a recovery: the seconds from the fault to the first new report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from math import inf

from lab.evidence.ledger import Run, RunAttempt
from lab.host.quantities import rounded


@dataclass(frozen=True)
class Breakdown:
    """Seconds per stage, one after the other. They add up to the time from the fault to the first report.

    A stage is None when its end is unknown; its seconds are then in the next one that is known. In a job of
    several ranks a stage ends when the last rank has done it.
    """

    detect: float | None
    """Until Ray Train acts on the failure."""
    decide: float | None
    """Until the old attempt is torn down and a new one is scheduled."""
    place: float | None
    """Until Ray begins to start the processes of its ranks. 0 for processes that stood by."""
    start: float | None
    """Until those processes belong to Ray Train."""
    import_: float | None
    """Until the training function begins: torch, the process group, what the script imports."""
    load: float | None
    """Until the checkpoint's files have been read, and the script's own preparations before that."""
    first_step: float | None
    """Until every rank has taken a step of its optimizer, or begins a round of a boosting library."""
    report: float
    """Until the first report: the rest of an epoch or of so many steps, and their checkpoint."""

    @property
    def total(self) -> float:
        """Seconds from the fault to the first report of the new attempt."""
        return sum(seconds or 0.0 for seconds in asdict(self).values())

    @property
    def to_step(self) -> float | None:
        """Seconds from the fault to the first step of every rank of the new attempt; None if unknown."""
        return None if self.first_step is None else self.total - self.report

    def stages(self) -> dict[str, float | None]:
        """Return stage -> seconds, to the millisecond; `import_` is called `import`."""
        return {name.rstrip("_"): rounded(seconds) for name, seconds in asdict(self).items()}


def breakdown(run: Run, hit: RunAttempt, new: RunAttempt, at: float) -> Breakdown | None:
    """Return the stages from a fault at `at` (seconds since the epoch), which ended `hit`, to `new`'s report.

    None while `new` has not reported, and when it was not the fault that ended `hit`.
    """
    first = new.trained_at
    if first is None or hit.failure_detected_at is None or hit.failure_detected_at < at:
        return None
    scheduled = new.scheduled_at
    launched = _last(new.launched_at, new.nodes)
    ends = [
        hit.failure_detected_at,
        scheduled,
        None if launched is None or scheduled is None else max(launched, scheduled),
        _last(new.ready_at, new.nodes),
        _last(new.function_started_at, new.nodes),
        _loaded(run, new),
        stepped_at(new),
    ]
    stages: list[float | None] = []
    begin = at
    for end in ends:
        if end is None:
            stages.append(None)
            continue
        end_here = min(max(end, begin), first)  # each machine has a clock of its own
        stages.append(end_here - begin)
        begin = end_here
    detect, decide, place, start, import_, load, first_step = stages
    return Breakdown(detect, decide, place, start, import_, load, first_step, first - begin)


def stepped_at(attempt: RunAttempt) -> float | None:
    """Return the time when the last rank had taken its first step; None if not all are known."""
    steps = {rank: [s.at for s in states if s.gradients] for rank, states in attempt.begun.items()}
    return _last({rank: times[0] for rank, times in steps.items() if times}, attempt.nodes)


def _last(times: Mapping[int, float], ranks: Iterable[int]) -> float | None:
    """Return the last of these times; None unless every rank has one."""
    known = [times.get(rank) for rank in ranks] or [None]
    return None if None in known else max(time for time in known if time is not None)


def _loaded(run: Run, new: RunAttempt) -> float | None:
    """Return the time when the last rank had read the checkpoint of this run that it began with."""
    uris = {c.uri for c in run.checkpoints} | {r.uri for r in new.requests if r.uri}
    first = new.trained_at or inf
    return max((load.at for load in new.loads if load.uri in uris and load.at <= first), default=None)
