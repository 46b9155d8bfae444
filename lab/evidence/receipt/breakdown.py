"""Stages of a recovery: the seconds from the fault to the first new report, one stage after the other.

A stage is None when its end is unknown; its seconds are then in the next one that is known. In a job of
several ranks a stage ends when the last rank has done it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from lab.evidence.ledger import Run, RunAttempt

Breakdown = Mapping[str, float | None]
"""Stage -> seconds, in this order; they add up to the time from the fault to the first report:

- detect: until Ray Train acts on the failure.
- decide: until the old attempt is torn down and a new one is scheduled.
- place: until Ray begins to start the processes of its ranks. 0 for processes that stood by.
- start: until those processes belong to Ray Train.
- import: until the training function begins: torch, the process group, what the script imports.
- load: until the checkpoint's files have been read, and the script's own preparations before that.
- first_step: until every rank has taken a step of its optimizer, or begins a round of a boosting library.
- report: until the first report: the rest of an epoch or of so many steps, and their checkpoint.
"""


def breakdown(run: Run, hit: RunAttempt, new: RunAttempt, at: float) -> Breakdown | None:
    """Return the stages from a fault at `at` (seconds since the epoch), which ended `hit`, to `new`'s report.

    None while `new` has not reported, and when it was not the fault that ended `hit`.
    """
    first = new.trained_at
    if first is None or hit.failure_detected_at is None or hit.failure_detected_at < at:
        return None
    scheduled = new.scheduled_at
    launched = _last(new.launched_at, new.nodes)
    ends = {
        "detect": hit.failure_detected_at,
        "decide": scheduled,
        "place": None if launched is None or scheduled is None else max(launched, scheduled),
        "start": _last(new.ready_at, new.nodes),
        "import": _last(new.function_started_at, new.nodes),
        "load": _loaded(run, new),
        "first_step": stepped_at(new),
        "report": first,
    }
    stages: dict[str, float | None] = dict.fromkeys(ends)
    begin = at
    for stage, end in ends.items():
        if end is not None:
            end_here = min(max(end, begin), first)  # each machine has a clock of its own
            stages[stage] = end_here - begin
            begin = end_here
    return stages


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
