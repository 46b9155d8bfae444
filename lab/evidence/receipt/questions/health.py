"""The questions whether a sick node was noticed and avoided, and whether the job was moved at no charge."""

from __future__ import annotations

from lab.evidence.receipt.case import NO_TAKEOVER, Answer, Case
from lab.evidence.receipt.questions.hit import hit_attempt
from lab.host.quantities import plural

UNKNOWN = "no health check has said anything of it"


def noticed(case: Case) -> Answer:
    """A health check said so while the job trained there, after at least one checkpoint."""
    told = case.evidence.health
    hit, why = hit_attempt(case)
    if hit is None:
        return None, why
    if told is None:
        return None, UNKNOWN
    newest = case.before_fault[-1]
    return True, (
        f"noticed after {told.noticed_at - case.fault.at:.1f} s: {told.message}; "
        f"in attempt {hit.number}, after "
        f"{plural(len(case.before_fault), 'checkpoint')} (the newest of {case.place(newest)})"
    )


def avoided(case: Case) -> Answer:
    """Nothing of the job was placed on the node while it was closed."""
    told, target = case.evidence.health, case.fault.target
    if told is None:
        return None, UNKNOWN
    if told.avoided_at is None:
        return False, f"{target} took new work all the time"
    end = told.until if told.until is not None else float("inf")
    for attempt in case.attempts:
        began = attempt.started_at
        if began is None or not told.avoided_at < began < end:
            continue
        if any(case.service(node) == target for node in attempt.nodes.values()):
            return (
                False,
                f"attempt {attempt.number} began on {target} {began - told.avoided_at:.1f} s after that",
            )
    again = "" if told.until is None else f", and again after {told.until - case.fault.at:.1f} s"
    return True, f"{target} took no new work after {told.avoided_at - case.fault.at:.1f} s{again}"


def moved_free(case: Case) -> Answer:
    """The attempt was reset for health, no retry was charged, and the next one ran elsewhere."""
    told, new = case.evidence.health, case.new
    if told is None:
        return None, UNKNOWN
    if not told.reset:
        return None, "the job was not reset"
    if told.charged:
        return False, f"the reset ({told.reset}) was charged as a retry"
    if new is None:
        return None, NO_TAKEOVER
    if not new.nodes:
        return None, f"the ledger does not say where attempt {new.number} ran"
    if case.fault.target in {case.service(node) for node in new.nodes.values()}:
        return False, f"attempt {new.number} ran on {case.fault.target} again"
    when = "" if told.reset_at is None else f" after {told.reset_at - case.fault.at:.1f} s"
    return (
        True,
        f"reset{when} ({told.reset}), no retry charged; attempt {new.number} ran on {case.names(new)}",
    )
