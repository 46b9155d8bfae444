"""Holds the steps that a script reports against those that its optimizers did, where these were counted."""

from __future__ import annotations

from itertools import pairwise

from lab.api.base import Number
from lab.evidence.ledger.fields import COUNTED
from lab.evidence.ledger.history import STEP_KEYS
from lab.evidence.ledger.model import Run, RunAttempt


def in_steps(run: Run | None) -> bool:
    """Tell whether a run counts steps, of which a report may stand for many."""
    return run is not None and run.progress_key in (*STEP_KEYS, COUNTED)


def _counted(run: Run) -> bool:
    """Tell whether the optimizer's steps in the ledger are those that the script reports."""
    pairs = [
        (b.progress - a.progress, b.optimizer_steps - a.optimizer_steps)
        for attempt in run.attempts
        for a, b in pairwise(r for r in attempt.reports if r.progress is not None)
        if a.progress is not None and b.progress is not None
        and a.optimizer_steps is not None and b.optimizer_steps is not None
    ]  # fmt: skip
    return in_steps(run) and bool(pairs) and all(reported == done for reported, done in pairs)


def began(run: Run | None, attempt: RunAttempt, rank: int = 0) -> Number | None:
    """Return the step that a rank began with; None where its optimizer's steps were not counted."""
    first = attempt.first_of(rank) if rank else attempt.first
    if run is None or first is None or first.progress is None or first.optimizer_steps is None:
        return None
    return first.progress - first.optimizer_steps + 1 if _counted(run) else None


def warm_up(run: Run, attempt: RunAttempt, rank: int) -> int | None:
    """Return how many steps more than before every other report, in any attempt, a rank had made before
    its first one, from those on that begin with what it goes on with. None where that is not known."""
    mine = [
        [r.optimizer_steps for r in a.by_rank.get(rank, ()) if r.optimizer_steps is not None]
        for a in run.attempts
    ]
    grown = {later - sooner for counts in mine for sooner, later in pairwise(counts)}
    first = next((r.optimizer_steps for r in attempt.by_rank.get(rank, ()) if r.trained), None)
    if len(grown) != 1 or first is None:
        return None
    begins = {state.optimizer: state.steps for state in attempt.begun.get(rank, ())}
    more = first - min(begins.values(), default=0) - grown.pop()
    return more if more >= 0 else None
