"""The question whether training went on with the weights of its checkpoint, and not only opened it.

What the files of a checkpoint hold, and what a rank has right before its first step, is in the ledger as
fingerprints (`raylab_ledger.weights`). They are compared where that can be done: for an optimizer of PyTorch,
with parameters that are not sharded, and for XGBoost and LightGBM.
"""

from __future__ import annotations

from math import inf

from lab.evidence.ledger import RunAttempt, warm_up
from lab.evidence.receipt.case import NO_TAKEOVER, SKIPPED, Answer, Case, name
from lab.host.quantities import plural


def right_weights(case: Case) -> Answer:
    """Every rank's first step was taken from the weights in the files that were loaded."""
    answers = [
        same_as_loaded(case, attempt, rank) for attempt in case.resumed for rank in sorted(attempt.nodes)
    ]
    if not answers:
        return None, NO_TAKEOVER
    for verdict in (False, None, SKIPPED):
        if (worst := next((answer for answer in answers if answer[0] is verdict), None)) is not None:
            return worst
    return answers[0]


def same_as_loaded(case: Case, attempt: RunAttempt, rank: int) -> Answer:
    """Compare the weights that a rank began with to those in the files that any of the ranks loaded."""
    mine, there, where = attempt.weights.get(rank), *_loaded(case, attempt)
    who = f"rank {rank} of attempt {attempt.number}"
    if mine is None:
        return SKIPPED, f"weights not compared: {who} has no optimizer of PyTorch and no boosted trees"
    if mine.why:
        return SKIPPED, f"weights not compared: {mine.why}"
    if not mine.tensors:  # perhaps of a helper model, trained before the one that goes on
        return None, f"{who} is known only to have begun a model without trees"
    other = mine.tensors - there
    as_first = f"{who} began with the weights that training had begun with"
    if other and other <= _initial(case, rank):
        if _may_have_warmed_up(case, attempt, rank, mine.at):
            return None, f"{who} may have made its first step before it had the weights of its checkpoint"
        return False, f"{as_first}, not with those of its checkpoint"
    if mine.tensors <= _initial(case, rank):
        return None, f"{as_first}, which the checkpoint holds as well"
    if not where:
        return None, f"attempt {attempt.number} loaded nothing that its weights could be compared with"
    if not there:
        return SKIPPED, f"weights not compared: there are none in {where} that can be read"
    if other:
        count = plural(len(mine.tensors), "parameter")
        why = "others, or saved in another precision"
        return None, f"{len(other)} of {count} that {who} began with are not in {where}: {why}"
    return True, f"attempt {attempt.number} began with the weights in {where}, on every rank"


def _loaded(case: Case, attempt: RunAttempt) -> tuple[frozenset[str], str]:
    """Return the fingerprints in what an attempt resumed from, and its name; both empty for nothing."""
    if (state := case.remembered(attempt)) is not None:
        return state.tensors, f"the state from {state.source}"
    loads = case.restores(attempt)
    tensors = frozenset(tensor for load in loads for tensor in load.tensors or ())
    return tensors, name(loads[-1].uri) if loads else ""


def _loaded_at(case: Case, attempt: RunAttempt, rank: int) -> float:
    """Return when a rank, or the last of those that may have given it its state, loaded; -inf for never."""
    times = {load.rank: load.at for load in case.restores(attempt)}
    return times.get(rank, max(times.values(), default=-inf))


def _may_have_warmed_up(case: Case, attempt: RunAttempt, rank: int, at: float) -> bool:
    """Tell whether a rank's first step, at that time, may be none of its training: by the number of its
    steps, or, where these tell nothing, since the checkpoint was loaded later. A rank whose attempt ended
    before it had reported may have made no other one."""
    if not any(report.trained for report in attempt.by_rank.get(rank, ())):
        return True
    more = warm_up(case.run, attempt, rank) if case.run is not None else None
    return at < _loaded_at(case, attempt, rank) if more is None else more > 0


def _initial(case: Case, rank: int) -> frozenset[str]:
    """Return the weights that a rank of the run's first attempt began with."""
    first = case.attempts[0].weights.get(rank) if case.attempts else None
    return first.tensors if first is not None else frozenset()
