"""The questions whether a preemption was a real one, and whether the job gave way to the one it was for."""

from __future__ import annotations

from lab.evidence.receipt.case import Answer, Case
from lab.evidence.receipt.questions.hit import hit_attempt, place_of

UNKNOWN = "what the queues recorded is not known"


def preempted(case: Case) -> Answer:
    """The queues preempted the job while it trained, after at least one checkpoint."""
    preemption = case.evidence.preemption
    hit, why = hit_attempt(case)
    if hit is None:
        return None, why
    if preemption is None:
        return None, UNKNOWN
    by = f"by {preemption.by} of {preemption.by_queue}" if preemption.by else "on demand"
    return True, f"preempted {by} ({preemption.reason}) {place_of(case, hit)}"


def gave_way(case: Case) -> Answer:
    """Its quota was free before the other was admitted, and it was admitted again later."""
    preemption = case.evidence.preemption
    if preemption is None:
        return None, UNKNOWN
    if preemption.gave_way_at is None:
        return None, f"it has not given its quota in {preemption.queue} back"
    detail = f"gave its quota in {preemption.queue} back after {preemption.gave_way_at - case.fault.at:.1f} s"
    if preemption.by:
        if preemption.by_admitted_at is None:
            return None, f"{detail}; {preemption.by} has not been admitted"
        if preemption.by_admitted_at < preemption.gave_way_at:
            return False, f"{detail}, although {preemption.by} had been admitted before that"
        detail += f"; {preemption.by} was admitted after {preemption.by_admitted_at - case.fault.at:.1f} s"
    if preemption.admitted_again_at is None:
        return None, f"{detail}; the job waits for its turn"
    return True, f"{detail}; the job again after {preemption.admitted_again_at - case.fault.at:.1f} s"
