"""The question whether the fault was a real one: it hit the training, after at least one checkpoint."""

from __future__ import annotations

from lab.api.ledger import PreemptionNotice
from lab.evidence.ledger import RunAttempt, of_kind
from lab.evidence.receipt.case import NO_LEDGER, NO_TAKEOVER, Answer, Case
from lab.evidence.receipt.expected import Expected
from lab.evidence.receipt.model import Source
from lab.host.quantities import plural
from lab.services import HEAD
from lab.topology import JOB_FINAL

SLOW_SHARE = 0.5
"""Share of a slow store's delay for which it must have kept labctl waiting at least."""

NO_NUMBERS = ("nan", "inf", "-inf")
"""Values of a metric as the ledger has them."""


def node_fault(case: Case) -> Answer:
    """A node that ran the attempt died, froze or was cut off after at least one checkpoint."""
    fault, node = case.fault, case.node(case.fault.node_id)
    hit, why = hit_attempt(case)
    if hit is None:
        return None, why
    dead = node is not None and node.alive is False
    unasked = case.unasked(Source.NODES)
    again = next((a.number for a in case.after if case.fault.node_id in a.nodes.values()), None)
    if unasked and fault.traits.ends_node and again is not None:
        return None, f"attempt {again} ran on the node of {fault.target} that was to be lost"
    if fault.traits.ends_node and not dead and not unasked:
        return None, f"Ray lists the node of {fault.target} " + ("as alive" if node else "nowhere")
    if dead and node and node.ended_at is not None and node.ended_at < fault.at:
        return None, f"{fault.target} had been dead for {fault.at - node.ended_at:.1f} s when the fault came"
    detected = hit.failure_detected_at is not None
    if not case.after and not detected:
        return None, _went_on(case, hit)
    if not dead and not detected:
        return None, f"Ray noticed no failure of attempt {hit.number}"
    if not dead and (other := _of_another_failure(case, hit)):
        return None, other
    detail = f"{fault.target} {fault.traits.effect} {place_of(case, hit)}"
    if dead and node and node.ended_at is not None:
        detail += f"; Ray declared its node dead after {node.ended_at - fault.at:.1f} s"
    elif unasked and hit.failure_detected_at is not None:
        detail += f"; Ray Train acted on it after {hit.failure_detected_at - fault.at:.1f} s"
    notices = [e.at for e, _ in of_kind(case.evidence.events, PreemptionNotice) if e.at >= fault.at]
    if notices:
        detail += f"; Ray Train told the script of it after {min(notices) - fault.at:.1f} s"
    return True, detail


def rank_fault(case: Case) -> Answer:
    """The attempt ended because of the fault, after at least one checkpoint."""
    hit, why = hit_attempt(case)
    if hit is None:
        return None, why
    if other := _of_another_failure(case, hit):
        return None, other
    made = plural(len(case.before_fault), "checkpoint")
    detail = f"{case.fault.kind} on {case.fault.target} in attempt {hit.number}, after {made}"
    if hit.failure_detected_at is not None:
        return True, f"{detail}; Ray Train acted on it after {hit.failure_detected_at - case.fault.at:.1f} s"
    if case.driver_restarted:
        again = case.over_at(hit) - case.fault.at
        return True, f"{detail}; its driver was started again after {again:.1f} s"
    return None, _went_on(case, hit)


def checkpoint_fault(case: Case) -> Answer:
    """The newest checkpoint was damaged, and training had to load one."""
    if case.run is None:
        return None, NO_LEDGER
    if case.hit is None:
        return None, _not_hit(case)
    known = [c for c in case.run.checkpoints if c.at <= case.over_at(case.hit)]
    if not known or known[-1].uri not in case.fault.damaged:
        return None, "the checkpoint that was damaged was not the newest one when a rank was ended"
    if case.new is None:
        return None, NO_TAKEOVER
    return True, f"{case.fault.kind}: {case.label(known[-1])}, the newest; a rank ended"


def store_fault(case: Case) -> Answer:
    """The store was away, or slow, while the job trained."""
    fault = case.fault
    hit, why = hit_attempt(case)
    if hit is None:
        return None, why
    if case.after and (other := _of_another_failure(case, hit)):
        return None, other
    lasted = "" if fault.reverted_at is None else f" for {fault.reverted_at - fault.at:.1f} s"
    if fault.expected is Expected.STORE_AWAY:
        if not fault.store_refusals:
            return None, "the store answered labctl all the time"
        times = plural(fault.store_refusals, "time")
        return True, f"{fault.kind}{lasted}; the store let labctl down {times} meanwhile"
    summary = f"{fault.kind} on {fault.target}{lasted} in attempt {hit.number}"
    if not fault.traits.delay:
        return True, summary
    slowest = f"labctl's slowest look took {fault.slowest_read:.2f} s"
    if fault.slowest_read < SLOW_SHARE * float(fault.parameters.get(fault.traits.delay, 0.0)):
        return None, f"{slowest}: the store was not slow"
    return True, f"{summary}; {slowest}"


def head_fault(case: Case) -> Answer:
    """The head was lost while the job trained, and another took its place."""
    hit, why = hit_attempt(case)
    if hit is None:
        return None, why
    if why := case.unasked(Source.NODES):
        return None, why
    heads = (n for n in case.evidence.nodes if n.service == HEAD and n.alive)
    if all(n.node_id == case.fault.node_id for n in heads):
        return None, f"Ray lists no new node of {HEAD}"
    return True, f"{HEAD} {case.fault.traits.effect} in attempt {hit.number}; a new one took its place"


def hit_attempt(case: Case) -> tuple[RunAttempt | None, str]:
    """Return the attempt that the fault hit after at least one checkpoint; None and why, if there is none."""
    if case.run is None:
        return None, NO_LEDGER
    if case.hit is None:
        return None, _not_hit(case)
    if not case.before_fault:
        return None, "no checkpoint had been committed before the fault"
    return case.hit, ""


def place_of(case: Case, hit: RunAttempt) -> str:
    """Return where in the run a fault came, such as `in attempt 1, after 2 checkpoints (...)`."""
    saved = plural(len(case.before_fault), "checkpoint")
    return f"in attempt {hit.number}, after {saved} (the newest of {case.place(case.before_fault[-1])})"


def _of_another_failure(case: Case, hit: RunAttempt) -> str:
    """Return a sentence where every rank that the fault hit reported between its end and that of the attempt.

    A node that is lost for good reports nothing more, and what Ray Train still takes in is from before.
    """
    fault, over, end = case.fault, case.fault.reverted_at, case.over_at(hit)
    ranks = [rank for rank, node in hit.nodes_at(fault.at).items() if fault.node_id in ("", node)]
    failed = hit.failure_detected_at is not None or bool(case.after)
    if fault.traits.ends_node or over is None or not failed or not ranks:
        return ""
    if not all(any(over < r.at < end for r in hit.by_rank.get(rank, ())) for rank in ranks):
        return ""
    later = f"its end, {end - fault.at:.1f} s after the fault, may have another cause"
    return f"attempt {hit.number} went on after the fault was over; {later}"


def _not_hit(case: Case) -> str:
    """Explain why no attempt counts as hit."""
    current, target = case.current, case.fault.target
    if current is None:
        return "the ledger shows no attempt that had started before the fault"
    if case.fault.node_id not in current.nodes.values():
        return f"attempt {current.number} ran on {case.names(current)}, not on {target}"
    return f"attempt {current.number} was already over when {target} was hit"


def _went_on(case: Case, hit: RunAttempt) -> str:
    """Explain why nothing recovered from a fault that ended no attempt."""
    later = [report for report in hit.reports if report.at > case.fault.at]
    if not later and case.evidence.job_status not in JOB_FINAL:
        return NO_TAKEOVER
    values = ((key, value, r.progress) for r in later for key, value in r.metrics.items())
    for key, value, progress in values:
        if value in NO_NUMBERS:
            where = f"{case.word} {progress}"
            return f"attempt {hit.number} trained on with {key} {value} from {where} on, and nothing ended it"
    undisturbed = f"attempt {hit.number} went on undisturbed; nothing had to recover"
    return case.fault.traits.too_short or undisturbed
