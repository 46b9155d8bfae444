"""The questions what is left after a fault: whether the lab is whole again, and nothing saved is lost."""

from __future__ import annotations

from collections.abc import Sequence

from lab.evidence.ledger import CommittedCheckpoint
from lab.evidence.receipt.case import NO_LEDGER, SKIPPED, Answer, Case
from lab.evidence.receipt.model import NOT_REVERTED, Source
from lab.host.quantities import plural
from lab.topology import State


def lab_whole(case: Case) -> Answer:
    """Every service is healthy, the fault is reverted, the node is back in the cluster."""
    fault, services, nodes = case.fault, case.evidence.services, case.evidence.nodes
    problem = _problem(case)
    if problem:
        return problem
    if case.unasked(Source.NODES):
        return True, f"{plural(len(services), 'service')} healthy, the fault is undone"
    if not nodes:
        return None, "Ray's nodes are not known"
    back = [n for n in nodes if n.service == fault.target and n.alive]
    if fault.traits.ends_node:
        back = [n for n in back if n.node_id != fault.node_id]
    if not back:
        return False, f"{fault.target} is not back among Ray's nodes"
    detail = f"{plural(len(services), 'service')} healthy, {fault.target} is in the cluster"
    if any(n.node_id == fault.node_id for n in back):
        return True, f"{detail} (the same node all along)"
    joined = case.rejoined
    at = joined.started_at if joined else None
    return True, f"{detail} again after {at - fault.at:.1f} s" if at else detail


def services_whole(case: Case) -> Answer:
    """Every service is healthy and the fault is reverted; for faults that no worker node is the target of."""
    return _problem(case) or (
        True, f"{plural(len(case.evidence.services), 'service')} healthy, the fault is undone"
    )  # fmt: skip


def _problem(case: Case) -> Answer | None:
    """Return the answer where a service is not healthy, or the fault not reverted."""
    left = next((p for p in case.evidence.problems if p.startswith(NOT_REVERTED)), "")
    if why := case.unasked(Source.SERVICES):
        return (False, left) if left else (SKIPPED, why)
    sick = [s for s in case.evidence.services if s.state is not State.HEALTHY]
    if sick:
        return False, "; ".join(
            f"{s.service} is {s.state.value}" + (f": {s.detail}" * bool(s.detail)) for s in sick
        )
    if case.fault.reverted_at is None:
        return False, f"the fault on {case.fault.target} has not been reverted"
    if not case.evidence.services:
        return None, "the state of the services is not known"
    return None


def nothing_lost(case: Case) -> Answer:
    """Every checkpoint from before the fault is stored as it was saved, but for those training deletes."""
    if case.run is None:
        return None, NO_LEDGER
    last = [c for c in case.before_fault if case.is_last_of_its_name(c)]
    known = [c for c in last if c.files is not None]
    if not known:
        return None, "it is not known what was saved before the fault"
    stored = case.evidence.stored
    changed = [c for c in known if c.uri in stored and not c.accepts(stored[c.uri])]
    if changed:
        return False, f"{case.label(changed[0])} is not as it was saved"
    absent = [c for c in last if c.uri not in stored]
    unread = [c for c in absent if any(p.startswith(f"{c.uri} ") for p in case.evidence.problems)]
    missing = [c for c in absent if c not in unread]
    lost = _lost(case, missing)
    if lost is not None:
        return False, f"{case.label(lost)} is gone"
    if unread:
        return None, f"{case.label(unread[0])} could not be read back"
    plan, detail = case.run.plan, plural(sum(c.uri in stored for c in known), "checkpoint")
    detail += " from before the fault intact"
    if not missing:
        return True, detail
    if plan is None or plan.num_to_keep is None:
        return None, f"{detail}; whether training deleted {len(missing)} itself is not known"
    rule = f"it keeps the {plan.num_to_keep} " + (f"best by {plan.best_by}" if plan.best_by else "newest")
    if _too_few(case, plan.num_to_keep):
        return None, f"{detail}; whether training deleted {len(missing)} itself is not known: {rule}"
    return True, f"{detail}; {len(missing)} deleted by the training itself: {rule}"


def _lost(case: Case, missing: Sequence[CommittedCheckpoint]) -> CommittedCheckpoint | None:
    """Return the first of those missing that training cannot have deleted: it always keeps the newest one.

    Where it keeps the newest few, neither one that came after a checkpoint that is there; where it keeps all,
    none, but for one that was damaged on purpose.
    """
    made = case.run.checkpoints if case.run else ()
    plan = case.run.plan if case.run else None
    by_age = not (plan and plan.best_by)
    if plan and plan.keeps_all and (gone := [c for c in missing if c.uri not in case.damaged]):
        return gone[0]
    kept = [n for n, c in enumerate(made) if c.uri in case.evidence.stored and c.uri not in case.damaged]
    after = made[min(kept) :] if kept and by_age else made[-1:]
    return next((c for c in missing if c in after), None)


def _too_few(case: Case, num_to_keep: int) -> bool:
    """Tell whether fewer checkpoints from before the fault are there than training, by its plan, left.

    Each one that came later can have taken the place of one of them.
    """
    counted = [c for c in case.before_fault if c.uri not in case.damaged]
    later = len(case.run.checkpoints) - len(case.before_fault) if case.run else 0
    there = sum(c.uri in case.evidence.stored for c in counted)
    return there < min(num_to_keep, len(counted)) - later
