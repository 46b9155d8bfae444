"""Whether a run that ended without an error came to its end, or left epochs out.

A training function that returns on every rank has finished. How many epochs it was to do is known from an
undisturbed run of the same job (the control run); without one, its `train_loop_config` may name a number.
That is a hint: a script may stop early, and then its library says so in the ledger. Where it says nothing,
fewer epochs than planned are proof neither of an end nor of a loss.

With a control run, an equal number of epochs is right, whatever was planned, and another number is wrong, but
for early stopping. That decides by a metric and by what it remembers, so:

- A control run that stopped early before the job did: the job lost nothing, it did more.
- A job that stopped early before the control run did, with other metrics: its rule had other numbers to
  decide by, as on GPUs or with another number of ranks. Where the metrics differ is in the comparison.
- The same with equal metrics in every shared epoch: the same numbers led to another decision, so what the
  rule remembers was not restored, and epochs are missing because of the fault.
"""

from __future__ import annotations

from lab.evidence.ledger import History, Run, epochs_of
from lab.evidence.receipt.case import Case
from lab.evidence.receipt.compare import compare_curves

Answer = tuple[bool | None, str]
"""Passed, failed, or None for not known; and the detail."""


def ended_where_it_should(case: Case, run: Run) -> Answer:
    """The answer for a run that has reported, and ended without an error, in a job that SUCCEEDED."""
    done = epochs_of(run)
    if done is not None and done.last is None:
        return None, f"the job SUCCEEDED, but its last attempt reported no {done.key}"
    compared = _against(case.control, run) if case.control is not None else None
    if compared is not None:
        return compared
    if done is None or done.last is None or done.final is None:
        what = (
            "reports no epoch to compare with its plan"
            if run.plan and run.plan.epochs
            else "names no number of epochs"
        )
        return True, f"the job SUCCEEDED and its run ended without an error; the script {what}"
    if done.last > done.final - (run.stride if done.key == run.progress_key else 1):
        return (
            True,
            f"the job SUCCEEDED; the last epoch reported is {done.last}, the planned one {done.final}",
        )
    here = done.told(done.last)
    if by := run.attempts[-1].ended_early:
        return True, f"the job SUCCEEDED; it ended by itself at {here}: {by} stopped early"
    return (
        None,
        f"the job SUCCEEDED and ended without an error at {here}; its plan was {done.planned}, and whether "
        "it stopped early or lost epochs is not known: an undisturbed run, --control, decides",
    )


def _against(other: Run, run: Run) -> Answer | None:
    """What the control run says; None where the two count other things."""
    mine, theirs = epochs_of(run), epochs_of(other)
    if mine is None or theirs is None or mine.key != theirs.key or None in (mine.last, theirs.last):
        return None
    last, undisturbed = mine.last or 0, theirs.last or 0
    by, by_other = run.attempts[-1].ended_early, other.attempts[-1].ended_early
    itself = f" by itself ({by} stopped early)" if by else ""
    ended = f"the job SUCCEEDED; it ended{itself} at {mine.told(last)}"
    if last == undisturbed:
        return True, f"{ended}, as the undisturbed run did"
    both = f"{ended}, the undisturbed run{' by itself' if by_other else ''} at {mine.key} {undisturbed}"
    if last > undisturbed:
        return bool(by_other), both
    if not by:
        return False, both
    curves = compare_curves(History((run,)), History((other,)))
    if curves.comparable and curves.first is None:
        return False, f"{both}, with equal metrics until then: what it stops by was not restored"
    return True, f"{both}; it decided by metrics that differ from that run's"
