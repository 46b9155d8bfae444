"""Counts of a run: its epochs, those reported and those planned, and the steps of its optimizer.

Epochs are in the count of the script (from 0 or 1). Where a run counts steps and names how many, and not how
many epochs, its steps take their place.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from lab.api.base import Number
from lab.api.lenient import number
from lab.evidence.ledger.history import EPOCH_KEYS, STEP_KEYS
from lab.evidence.ledger.model import COUNTED, ROUND, Run, RunAttempt


@dataclass(frozen=True)
class Epochs:
    """The epochs, or steps, that a run has reported, as values of the metric `key`."""

    key: str
    first: Number
    """The first that was reported at all."""
    last: Number | None
    """The furthest of the last attempt that reported; None where that one reported none."""
    planned: Number | None
    """Number that the script names in its `train_loop_config`: a hint, since it may stop early."""

    @property
    def word(self) -> str:
        """Its unit: `step` or `epoch`."""
        return "step" if self.key in STEP_KEYS else ROUND if self.key == ROUND else "epoch"

    @property
    def from_zero(self) -> bool:
        """True if the script counts them from 0."""
        return self.first == 0

    @property
    def final(self) -> Number | None:
        """The last one that is planned, in the script's count."""
        return self.planned - 1 if self.planned is not None and self.from_zero else self.planned

    def position(self, epoch: Number) -> str:
        """Return the place of an epoch among those planned, such as `epoch 4 of 20`."""
        if self.planned is None:
            return f"{self.key} {epoch}"
        if self.from_zero:
            return f"{self.key} {epoch} ({epoch + 1} of {self.planned}, counted from 0)"
        return f"{self.key} {epoch} of {self.planned}"


def epochs_of(run: Run) -> Epochs | None:
    """Return the epochs, steps or rounds that a run has reported; None where it has reported none."""
    attempts = [mine for a in run.attempts if (mine := [r for r in a.reports if r.trained])]
    everything = [report.metrics for mine in attempts for report in mine]
    key = next((k for k in EPOCH_KEYS if any(number(m.get(k)) is not None for m in everything)), None)
    planned, steps = (run.plan.epochs, run.plan.steps) if run.plan else (None, None)
    if run.progress_key == ROUND:
        key, planned = ROUND, _planned_rounds(run)
    elif run.progress_key in STEP_KEYS and steps is not None and (key is None or planned is None):
        key, planned = run.progress_key, steps
    if key is None:
        return None
    values = [[r.progress if key == ROUND else number(r.metrics.get(key)) for r in mine] for mine in attempts]
    epochs = [[value for value in mine if value is not None] for mine in values]
    if not any(epochs):
        return None
    return Epochs(
        key=key,
        first=next(e[0] for e in epochs if e),
        last=max(epochs[-1], default=None),
        planned=planned,
    )


def _planned_rounds(run: Run) -> Number | None:
    """Return the rounds of boosted trees that the first training was to end with."""
    states = [s for a in run.attempts[:1] for mine in a.begun.values() for s in mine if s.planned is not None]
    return (states[-1].rounds or 0) + (states[-1].planned or 0) if states else None


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
