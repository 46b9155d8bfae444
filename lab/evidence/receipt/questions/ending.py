"""The question whether the job finished, and whether its run came to its end or left epochs out.

A training function that returns on every rank has finished. How many epochs it was to do is known from an
undisturbed run of the same job (the control run); without one, its `train_loop_config` may name a number.
That is a hint: a script may stop early, and then its library says so in the ledger. Where it says nothing,
fewer epochs than planned prove neither an end nor a loss.

With a control run, an equal number of epochs is right, whatever was planned, and another number is wrong, but
for early stopping. That decides by a metric and by what it remembers, so:

- A control run that stopped early before the job did: the job lost nothing, it did more.
- A job that stopped early before the control run did, with other metrics: its rule had other numbers to
  decide by, as on GPUs or with another number of ranks. Where the metrics differ is in the comparison.
- The same with equal metrics in every shared epoch: the same numbers led to another decision, so what the
  rule remembers was not restored, and epochs are missing because of the fault.
"""

from __future__ import annotations

import re
from math import inf

from lab.evidence.ledger import COUNTED, History, Run, epochs_of, in_steps
from lab.evidence.receipt.case import NO_LEDGER, Answer, Case
from lab.evidence.receipt.compare import compare_curves
from lab.evidence.receipt.expected import Expected
from lab.evidence.receipt.model import Source
from lab.topology import JOB_FINAL

OVERTAKEN = "the job FAILED later, after another fault: training had gone on from this one"

NAMES_THE_STORE = re.compile(
    r"(?<![a-z0-9])(s3|aws|minio)|nosuchbucket|object store|access.?key|credential"
    r"|oserror.*(bucket|storage)|(bucket|storage).*oserror",
    re.IGNORECASE,
)
"""Words in an error that lead a person to the store; not a training's own buckets, or storage of tensors."""


def job_finished(case: Case) -> Answer:
    """Ray says SUCCEEDED and the run came to its end: that of its plan, its own, or the control run's."""
    yes, detail = _finished(case)
    unasked = case.unasked(Source.JOBS)
    return yes, f"{detail} (by its ledger: {unasked})" if unasked else detail


def _finished(case: Case) -> Answer:
    status, message = case.evidence.job_status, case.evidence.job_message.strip()
    if status not in JOB_FINAL:
        return None, f"the job is {status}" if status else "Ray did not say how the job stands"
    if status == "FAILED" and case.overtaken:
        doubt = _end_unknown(case)
        return (None, f"{doubt}: {_last(message)}") if doubt else (True, OVERTAKEN)
    if status == "FAILED" and case.until < inf and case.current is None:
        why = f"the job is FAILED, after another fault; whom this one hit is not known: {_last(message)}"
        return None, why
    run = case.run
    if status != "SUCCEEDED":
        over = " after its run had ended well" if run and run.finished_at and not run.error else ""
        return False, f"the job is {status}{over}" + (f": {message.splitlines()[-1]}" if message else "")
    if run is None:
        return None, f"the job SUCCEEDED, but {NO_LEDGER}"
    if run.error:
        return False, f"the job SUCCEEDED, although its run ended with {run.error}"
    if run.finished_at is None or run.plan is None:
        lacks = "start" if run.plan is None else "end"
        return None, f"the job SUCCEEDED, but its ledger lacks the {lacks} of the run"
    if run.stopped and run.last is not None:
        done = epochs_of(run)
        where = f" at {done.position(done.last)}" if done and done.last is not None else ""
        return True, f"the job SUCCEEDED; its run was stopped by Tune{where}"
    if run.last is None:
        return None, "the job SUCCEEDED, but its ledger lacks every report"
    return _ended_where_it_should(case, run)


def finished_or_clear(case: Case) -> Answer:
    """The job finished; or it failed while the fault lasted, if it may, with an error that leads to it."""
    yes, detail = job_finished(case)
    if case.evidence.job_status != "FAILED" or case.overtaken:
        return yes, detail
    said = " ".join((case.evidence.job_message, (case.run.error if case.run else "") or ""))
    if case.evidence.resubmitted_as:
        return False, f"job {case.evidence.resubmitted_as}, which went on with it, failed: {_last(said)}"
    if case.outlasted is not None:
        went_on = f"attempt {case.outlasted.number} had gone on after the fault was over"
        return None, f"the job failed, for a reason that is not known: {went_on}: {_last(said)}"
    if not case.fault.expected.may_fail:
        return yes, detail
    if case.fault.expected is Expected.HEAD_LOST:
        return bool(said.strip()), f"the job failed and says why: {_last(said)}"
    clear = NAMES_THE_STORE.search(said) is not None
    if clear and (doubt := _end_unknown(case)):
        return None, f"{doubt}: {_last(said)}"
    return clear, f"the job failed; its error names the store{' ' if clear else ' nowhere '}: {_last(said)}"


def _end_unknown(case: Case) -> str:
    """Return why the job may have failed after it had gone on from its last fault; empty if it did not."""
    if case.run is None or case.run.finished_at is None:
        return "when the job failed is not known, its ledger lacks the end of the run"
    return "whether training had gone on before the job failed is not known" * case.may_have_outlasted


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "nothing"


def _ended_where_it_should(case: Case, run: Run) -> Answer:
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
            else f"names no number of {done.word if done else 'epoch'}s"
        )
        return True, f"the job SUCCEEDED and its run ended without an error; the script {what}"
    last = f"the job SUCCEEDED; the last {done.word} reported is {done.last}, the planned one {done.final}"
    if done.last > done.final:
        return None, f"{last}: it did more than was planned"
    # One that goes on with an earlier job's checkpoint does not show whether it counts from 0 or 1.
    unsure = any(request.uri for request in run.attempts[0].requests)
    least = done.final - unsure - (run.stride if done.key == run.progress_key else 1)
    if done.last > least:
        return True, last
    here = done.position(done.last)
    if by := run.attempts[-1].ended_early:
        return True, f"the job SUCCEEDED; it ended by itself at {here}: {by} stopped early"
    ended = f"the job SUCCEEDED and ended without an error at {here}; its plan was {done.planned}"
    early = f"whether it stopped early or lost {done.word}s is not known"
    return None, f"{ended}, and {early}: an undisturbed run, --control, decides"


def _against(other: Run, run: Run) -> Answer | None:
    """Answer by the control run; None where the two count different things."""
    mine, theirs = epochs_of(run), epochs_of(other)
    if mine is None or theirs is None or mine.key != theirs.key or None in (mine.last, theirs.last):
        return None
    last, undisturbed = mine.last or 0, theirs.last or 0
    by, by_other = run.attempts[-1].ended_early, other.attempts[-1].ended_early
    itself = f" by itself ({by} stopped early)" if by else ""
    ended = f"the job SUCCEEDED; it ended{itself} at {mine.position(last)}"
    key, steps = run.progress_key, [(r.last and r.last.progress) or 0 for r in (run, other)]
    if last == undisturbed and in_steps(run) and key == other.progress_key != COUNTED and steps[0] < steps[1]:
        return False, f"{ended}, but at {key} {steps[0]}, the undisturbed run at {steps[1]}"
    if last == undisturbed:
        return True, f"{ended}, as the undisturbed run did"
    both = f"{ended}, the undisturbed run{' by itself' if by_other else ''} at {mine.key} {undisturbed}"
    if not (by if last < undisturbed else by_other):
        return False, both
    curves = compare_curves(History((run,)), History((other,)))
    if curves.equal is not None and curves.first is None:
        return False, f"{both}, with equal metrics until then: what it stops by was not restored"
    return True, f"{both}; it decided by metrics that differ from that run's"
