"""Evidence that is known to be missing: where there is any, nothing is proven, and nobody is accused."""

from __future__ import annotations

from lab.evidence.ledger import RunAttempt
from lab.evidence.receipt.case import Case, name
from lab.host.quantities import plural


def gaps(case: Case) -> tuple[str, ...]:
    """Return a sentence for each part of the ledger that must have been there, and is not."""
    if case.run is None:
        return ()
    reasons = [f"the ledger is incomplete: {why}" for why in case.run.missing]
    for attempt in (a for a in case.after if not case.void(a)):
        reasons += [f"the ledger is incomplete: {why}" for why in _of_attempt(case, attempt)]
    return tuple(reasons)


def _of_attempt(case: Case, attempt: RunAttempt) -> list[str]:
    """Which checkpoint is the newest is known; every rank that trained has left something, and its reports:
    Ray Train takes up those of all."""
    here = f"of attempt {attempt.number}"
    if unsure := _perhaps_committed(case, attempt):
        return [unsure]
    if case.trained(attempt) and not attempt.nodes:
        return [f"where the ranks {here} ran is not in it"]
    started = attempt.training_started_at is not None or case.trained(attempt)
    silent = [rank for rank in sorted(attempt.nodes) if rank not in attempt.writers] if started else []
    if silent:
        return [f"rank {silent[0]} {here} has recorded nothing"]
    groups = case.run is not None and case.run.plan is not None and case.run.plan.replica_groups
    if groups or not (attempt.by_rank or attempt.taken_up):
        return []  # whichever rank is there reports; or none had to
    ranks = sorted(attempt.nodes)
    silent = [rank for rank in ranks if not attempt.by_rank.get(rank)]
    if silent:
        return [f"rank {silent[0]} {here} has recorded no report"]
    if case.over_at(attempt) >= case.until:
        return []  # the next fault ended it, and perhaps a rank before it had written its last reports
    return [
        f"rank {rank} {here} lacks {plural(attempt.lacking(rank), 'report')} that Ray Train took up"
        for rank in ranks
        if attempt.lacking(rank)
    ][:1]


def _perhaps_committed(case: Case, attempt: RunAttempt) -> str:
    """Return a sentence on a checkpoint before this attempt whose commit may be missing, if no rank of an
    attempt after it asked Ray for the newest."""
    asked = [a.number for a in case.attempts if a.requests and a.number <= attempt.number]
    for maker, uri in sorted(case.run.perhaps_committed if case.run else (), reverse=True):
        if maker < attempt.number and not any(maker < number for number in asked):
            return f"whether {name(uri)} was committed before its controller was lost is not in it"
    return ""
