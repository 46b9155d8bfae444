"""The questions of continuity of progress and of work: where training went on, and how much was done
again."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from lab.evidence.ledger import COUNTED, Number, Run, RunAttempt, began, epochs_of, in_steps, number, warm_up
from lab.evidence.receipt import work
from lab.evidence.receipt.case import NO_TAKEOVER, Answer, Case
from lab.evidence.receipt.compare import CLOCKED
from lab.evidence.receipt.questions.resume import worst
from lab.evidence.receipt.questions.state import continues
from lab.host.quantities import plural

FAR_BELOW = 0.5
"""Share of the usual steps for each report up to which an attempt does another work than the one before."""

COUNTS = 3
"""Reports from which a metric that grows by the same whole number each time is a count."""


def resumed(case: Case) -> Answer:
    """Every rank of the new attempt, and of every later one, began right after its checkpoint."""
    run, new = case.run, case.new
    if run is None or new is None:
        return None, NO_TAKEOVER
    if run.progress_key is None:
        return None, "the script reports no progress value, such as `epoch`"
    if run.progress_repeats and case.restarted is None:
        flat = f"`{run.progress_key}` does not grow with every report"
        return None, f"{flat}, so no report marks a place in the run"
    reported = [attempt for attempt in case.resumed if attempt.first]
    if not reported:
        return None, _nothing_left(case, run, new)
    yes, detail = worst((_began_right(case, attempt) for attempt in reported), every=True)
    against = (_contradiction(case, run, attempt) for attempt in reported)
    contradiction = next(filter(None, against), "")
    return (None, f"{detail}; but {contradiction}") if yes and contradiction else (yes, detail)


def little_lost(case: Case) -> Answer:
    """Work repeated is at most one checkpoint interval."""
    if case.new is None:
        return None, NO_TAKEOVER
    again = work.lost_work(case)
    if again is None or case.run is None or (case.run.progress_repeats and case.restarted is None):
        return None, f"how much work attempt {case.new.number} repeated is not known"
    flying = work.in_flight(case)
    most = again.checkpoint_interval + flying
    little = again.amount <= most
    # Where checkpoints are uploaded meanwhile, those of reports that nobody knows of were so, too.
    unseen = 0 if again.amount < most and work.uploads_meanwhile(case) else work.unseen(case)
    if little and unseen is None:
        return None, f"how many {again.unit}s were done before the fault is not known"
    if little and unseen and most < work.with_unseen(case, again, unseen):
        return None, f"whether {plural(unseen, again.unit)} more were done before the fault is not known"
    more = f", and at most {again.unreported} that were not reported" if again.unreported else ""
    detail = f"{plural(again.amount, again.unit)} repeated{more}; "
    detail += f"checkpoints are {again.checkpoint_interval} apart"
    if flying and again.amount > again.checkpoint_interval:
        detail += f", and the newest {plural(work.uploads(case), 'one')} were still being uploaded"
    return little, detail


def _began_right(case: Case, attempt: RunAttempt) -> Answer:
    """Answer for rank 0, unless another rank that says how far it is began elsewhere."""
    again = case.restarted[1] if case.restarted is not None and case.restarted[0] is attempt else -1
    ranks = sorted(attempt.by_rank, key=lambda rank: (rank != again, rank))  # the one that began again first
    trained = [rank for rank in ranks if attempt.first_of(rank) is not None]
    return worst(_rank_began_right(case, attempt, rank) for rank in trained or [0])


def _rank_began_right(case: Case, attempt: RunAttempt, rank: int) -> Answer:
    who = f"rank {rank} of attempt {attempt.number}" if rank else f"attempt {attempt.number}"
    step = began(case.run, attempt, rank)
    if (state := case.remembered(attempt)) is not None:
        if step is None:
            return None, f"the optimizer's steps of {who} were not counted"
        detail = f"{who} began with {case.word} {step}, its state is of {state.step}"
        return step == state.step + 1, detail
    if case.run is not None and case.run.progress_key == COUNTED:  # on from the checkpoint, if it is so
        if continues(case, attempt, rank)[0] is not True:
            return None, "the script reports no progress value, such as `epoch`"
        return True, f"{who} went on with step {step} of its optimizer"
    base, report = case.newest_for(attempt), attempt.first_of(rank) if rank else attempt.first
    first = report.progress if report else None
    if base is None or base.progress is None or first is None or case.run is None:
        return None, f"how far the checkpoint before attempt {attempt.number} had come is not known"
    detail = f"{who} {_beginning(case, first, step)}, its checkpoint is of {case.place(base)}"
    apart = first - base.progress - case.run.stride if step is None else step - base.progress - 1
    return abs(apart) <= 1e-6 * case.run.stride, detail


def _beginning(case: Case, first: Number, step: Number | None) -> str:
    """Return how an attempt began: its first step if that is known, else its first report."""
    if step is not None:
        return f"began with {case.word} {step}"
    if in_steps(case.run) and case.run and case.run.stride != 1:
        return f"first reported {case.word} {first}, of every {case.run.stride}"
    return f"began with {case.word} {first}"


def _nothing_left(case: Case, run: Run, new: RunAttempt) -> str:
    """Return a sentence on an attempt that reported no progress: of a checkpoint of the end it had not to."""
    base, epochs = case.newest_for(new), epochs_of(run)
    where = f"attempt {new.number} reported no progress"
    if base is None or base.progress is None or epochs is None or epochs.key != run.progress_key:
        return where
    end = ": nothing was left to train" if base.progress == epochs.final else ""
    return f"{where}, its checkpoint is of {epochs.position(base.progress)}{end}"


def _contradiction(case: Case, run: Run, attempt: RunAttempt) -> str:
    """Return a sentence on work that is another one than before the fault, by two numbers; empty if none
    is."""
    for rank in sorted(attempt.by_rank):
        more = warm_up(run, attempt, rank)
        if more and not case.remembered(attempt):
            usual = (attempt.by_rank[rank][0].optimizer_steps or 0) - more
            return f"{more} steps more than the usual {usual} came before its first report"
    return _fewer_steps(case, attempt) or _fallen_count(case, attempt)


def _fewer_steps(case: Case, attempt: RunAttempt) -> str:
    def grown(attempts: list[RunAttempt]) -> list[int]:
        counts = [[r.optimizer_steps for r in a.reports if r.trained] for a in attempts]
        known = [[0, *(count for count in mine if count is not None)] for mine in counts]
        return [later - sooner for mine in known for sooner, later in pairwise(mine)]

    before = [a for a in case.attempts if a.number < attempt.number and len(a.nodes) == len(attempt.nodes)]
    then, now = grown(before), grown([attempt])
    if now and now[0] == 0 < min(then, default=0):
        return f"no step came before its first report, where {median(then):g} were usual"
    if min(len(then), len(now)) < COUNTS or not 0 < median(then) >= median(now) / FAR_BELOW:
        return ""
    makes = f"{median(now):g} steps for each report, where {median(then):g} were usual"
    return f"attempt {attempt.number} makes {makes}"


def _fallen_count(case: Case, attempt: RunAttempt) -> str:
    """A metric that counted in the attempt of the checkpoint, and is below what it was with that."""
    base, first = case.newest_for(attempt), attempt.first
    maker = next((a for a in case.attempts if base is not None and a.number == base.attempt), None)
    if maker is None or base is None or first is None:
        return ""
    reports = [r for r in maker.reports if r.trained]
    for key, value in first.metrics.items():
        values = [number(r.metrics.get(key)) for r in reports]
        counted = [v for v in values if isinstance(v, int)]
        grown = {later - sooner for sooner, later in pairwise(counted)}
        counts = len(counted) >= max(COUNTS, len(values)) and len(grown) == 1 and min(grown) > 0
        if not counts or CLOCKED.search(key):
            continue
        then = next((n for n, r in zip(counted, reports, strict=True) if r.checkpoint == base.uri), None)
        now = number(value)
        if then is not None and now is not None and now <= then:
            return f"its first report says {key} {now}, and that of its checkpoint said {then}"
    return ""
