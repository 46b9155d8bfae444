"""The questions whether a sick node was noticed and avoided, and whether the job was moved at no charge."""

from __future__ import annotations

from lab.evidence.receipt.case import NO_TAKEOVER, Answer, Case
from lab.evidence.receipt.questions.hit import hit_attempt, place_of

UNKNOWN = "no health check has reported it"


def noticed(case: Case) -> Answer:
    """A health check said so while the job trained there, after at least one checkpoint."""
    notice = case.evidence.health
    hit, why = hit_attempt(case)
    if hit is None:
        return None, why
    if notice is None:
        return None, UNKNOWN
    after = notice.noticed_at - case.fault.at
    return True, f"noticed after {after:.1f} s: {notice.message}; {place_of(case, hit)}"


def avoided(case: Case) -> Answer:
    """Nothing of the job was placed on the node while it was closed."""
    notice, target = case.evidence.health, case.fault.target
    if notice is None:
        return None, UNKNOWN
    if notice.avoided_at is None:
        return False, f"{target} took new work all the time"
    end = notice.until if notice.until is not None else float("inf")
    for attempt in case.attempts:
        began = attempt.started_at
        if began is None or not notice.avoided_at < began < end:
            continue
        if any(case.service(node) == target for node in attempt.nodes.values()):
            later = f"{began - notice.avoided_at:.1f} s after that"
            return False, f"attempt {attempt.number} began on {target} {later}"
    again = "" if notice.until is None else f", and again after {notice.until - case.fault.at:.1f} s"
    return True, f"{target} took no new work after {notice.avoided_at - case.fault.at:.1f} s{again}"


def moved_free(case: Case) -> Answer:
    """The attempt was reset for health, no retry was charged, and the next one ran elsewhere."""
    notice, new = case.evidence.health, case.new
    if notice is None:
        return None, UNKNOWN
    if not notice.reset:
        return None, "the job was not reset"
    if notice.charged:
        return False, f"the reset ({notice.reset}) was charged as a retry"
    if new is None:
        return None, NO_TAKEOVER
    if not new.nodes:
        return None, f"the ledger does not say where attempt {new.number} ran"
    if case.fault.target in {case.service(node) for node in new.nodes.values()}:
        return False, f"attempt {new.number} ran on {case.fault.target} again"
    when = "" if notice.reset_at is None else f" after {notice.reset_at - case.fault.at:.1f} s"
    ran = f"attempt {new.number} ran on {case.names(new)}"
    return True, f"reset{when} ({notice.reset}), no retry charged; {ran}"
