"""Which questions a receipt asks, by what the fault's outcome should be; and those beside the seven."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from lab.evidence.ledger import CommittedCheckpoint, RunAttempt
from lab.evidence.receipt import checks
from lab.evidence.receipt.case import Case
from lab.evidence.receipt.checks import NO_LEDGER, NO_TAKEOVER, OVER, RESUMED, WHOLE
from lab.evidence.receipt.ending import Answer
from lab.evidence.receipt.expected import Expected
from lab.evidence.receipt.model import CheckResult
from lab.topology import HEAD

NAMES_THE_STORE = re.compile(r"s3|aws|bucket|object store|storage|access.?key|credential", re.IGNORECASE)
"""What an error says that leads a person to the store."""

WENT_ON = "went on"

SLOW_SHARE = 0.5
"""A store that lets requests wait up to a delay has kept labctl waiting for this share of it at least."""


def run_checks(case: Case) -> tuple[CheckResult, ...]:
    """The answers to all questions of the fault's outcome, in order."""
    answers = ((name, question(case)) for name, question in QUESTIONS[case.fault.expected].items())
    return tuple(
        CheckResult(name, bool(yes), detail, known=yes is not None) for name, (yes, detail) in answers
    )


def finished_or_clear(case: Case) -> Answer:
    """The job finished; or it failed, with an error that leads to what was broken."""
    yes, detail = checks.job_finished(case)
    if case.evidence.job_status != "FAILED" or case.overtaken:
        return yes, detail
    said = " ".join((case.evidence.job_message, (case.run.error if case.run else "") or ""))
    if case.evidence.resubmitted_as:
        return False, f"job {case.evidence.resubmitted_as}, which went on with it, failed: {_last(said)}"
    if case.fault.expected is Expected.HEAD_LOST:
        return bool(said.strip()), f"the job failed and says why: {_last(said)}"
    clear = NAMES_THE_STORE.search(said) is not None
    return clear, f"the job failed; its error names the store{' ' if clear else ' nowhere '}: {_last(said)}"


def _hit(case: Case) -> tuple[RunAttempt | None, str]:
    """The attempt that the fault hit after at least one checkpoint; None and why, where there is none."""
    if case.run is None:
        return None, NO_LEDGER
    if case.hit is None:
        return None, checks.not_hit(case)
    if not case.before_fault:
        return None, "no checkpoint had been committed before the fault"
    return case.hit, ""


def rank_fault(case: Case) -> Answer:
    """The attempt ended because of the fault, after at least one checkpoint."""
    hit, why = _hit(case)
    if hit is None:
        return None, why
    if hit.failure_detected_at is None:
        return None, f"attempt {hit.number} went on undisturbed; nothing had to recover"
    after = hit.failure_detected_at - case.fault.at
    return True, (
        f"{case.fault.kind} on {case.fault.target} in attempt {hit.number}, after "
        f"{checks.count(len(case.before_fault), 'checkpoint')}; Ray Train acted on it after {after:.1f} s"
    )


def new_processes(case: Case) -> Answer:
    """Every rank of the new attempt runs in a process that the old one had not."""
    hit, new = case.hit, case.new
    if hit is None or new is None:
        return None, NO_TAKEOVER
    if not new.pids or not hit.pids:
        return None, f"the ledger does not say in which processes attempt {new.number} ran"
    before = {(hit.nodes.get(rank), pid) for rank, pid in hit.pids.items()}
    same = [rank for rank, pid in new.pids.items() if (new.nodes.get(rank), pid) in before]
    if same:
        return False, f"rank {same[0]} of attempt {new.number} ran in a process of attempt {hit.number}"
    return True, f"attempt {new.number} ran in {checks.count(len(new.pids), 'new process', 'es')}" + (
        f" on {checks.names(case, new)}"
    )


def checkpoint_fault(case: Case) -> Answer:
    """The newest checkpoint was damaged, and training had to load one."""
    if case.run is None:
        return None, NO_LEDGER
    if case.hit is None:
        return None, checks.not_hit(case)
    ended = case.hit.failure_detected_at
    known = [c for c in case.run.checkpoints if ended is None or c.at <= ended]
    if not known or known[-1].uri not in case.fault.damaged:
        return None, "the checkpoint that was damaged was not the newest one when a rank was ended"
    if case.new is None:
        return None, NO_TAKEOVER
    what = case.fault.kind.rpartition("-")[2]
    return (
        True,
        f"{what}: {checks.name(known[-1])} ({checks.place(case, known[-1])}), the newest; a rank ended",
    )


def intact_checkpoint(case: Case) -> Answer:
    """The newest checkpoint that is intact was loaded, and the ledger says that another was refused."""
    yes, detail = checks.right_checkpoint(case)
    if not yes:
        return yes, detail
    refused = [
        e.fields.get("uri") for e in case.evidence.events
        if e.event == "checkpoint_refused" and e.at >= case.fault.at
    ]  # fmt: skip
    silent = [uri for uri in case.fault.damaged if uri not in refused]
    if silent:
        return False, f"{detail}; but nobody said that {silent[0].rsplit('/', 1)[-1]} is damaged"
    return (
        True,
        f"{detail}; {case.fault.damaged[0].rsplit('/', 1)[-1]} was refused, and the job's log says so",
    )


def store_fault(case: Case) -> Answer:
    """The store was away, or slow, while the job trained."""
    fault = case.fault
    hit, why = _hit(case)
    if hit is None:
        return None, why
    lasted = "" if fault.reverted_at is None else f" for {fault.reverted_at - fault.at:.1f} s"
    if fault.expected is Expected.STORE_AWAY:
        if not fault.store_refusals:
            return None, "the store answered labctl all the time"
        times = checks.count(fault.store_refusals, "time")
        return True, f"{fault.kind}{lasted}; the store let labctl down {times} meanwhile"
    delay = float(fault.parameters.get("delay", 0.0))
    if fault.kind == "s3-slow" and fault.slowest_read < SLOW_SHARE * delay:
        return None, f"labctl's slowest look took {fault.slowest_read:.2f} s: the store was not slow"
    measured = f"; labctl's slowest look took {fault.slowest_read:.2f} s" if fault.kind == "s3-slow" else ""
    return True, f"{fault.kind} on {fault.target}{lasted} in attempt {hit.number}{measured}"


def head_fault(case: Case) -> Answer:
    """The head was lost while the job trained, and another took its place."""
    hit, why = _hit(case)
    if hit is None:
        return None, why
    fresh = [
        n for n in case.evidence.nodes
        if n.service == HEAD and n.alive and n.node_id != case.fault.node_id
    ]  # fmt: skip
    if not fresh:
        return None, f"Ray lists no new node of {HEAD}"
    return True, f"{HEAD} was killed in attempt {hit.number}; a new one took its place"


def nothing_lost(case: Case) -> Answer:
    """Every checkpoint from before the fault is stored as it was saved, but for those training deletes."""
    if case.run is None:
        return None, NO_LEDGER
    known = [c for c in case.before_fault if c.files is not None]
    if not known:
        return None, "it is not known what was saved before the fault"
    stored = case.evidence.stored
    changed = [c for c in known if c.uri in stored and not c.accepts(stored[c.uri])]
    if changed:
        return False, f"{checks.name(changed[0])} ({checks.place(case, changed[0])}) is not as it was saved"
    missing = [c for c in case.before_fault if c.uri not in stored]
    lost = _lost(case, missing)
    if lost is not None:
        return False, f"{checks.name(lost)} ({checks.place(case, lost)}) is gone"
    plan, detail = case.run.plan, checks.count(sum(c.uri in stored for c in known), "checkpoint")
    detail += " from before the fault intact"
    if missing and plan and plan.best_by:
        rule = f"it keeps the {plan.num_to_keep} best by {plan.best_by}"
        if _too_few(case, plan.num_to_keep or 0):
            return None, f"{detail}; whether training deleted {len(missing)} itself is not known: {rule}"
        return True, f"{detail}; {len(missing)} deleted by the training itself: {rule}"
    return True, detail + (f"; {len(missing)} older deleted by the training itself" if missing else "")


def _lost(case: Case, missing: Sequence[CommittedCheckpoint]) -> CommittedCheckpoint | None:
    """The first of those missing that training cannot have deleted: it always keeps the newest one.

    Where it keeps the newest few, neither one that came after a checkpoint that is there.
    """
    made = case.run.checkpoints if case.run else ()
    by_age = not (case.run and case.run.plan and case.run.plan.best_by)
    there = [c.at for c in made if c.uri in case.evidence.stored and c.uri not in case.damaged]
    return next((c for c in missing if c is made[-1] or (by_age and there and c.at > min(there))), None)


def _too_few(case: Case, num_to_keep: int) -> bool:
    """Whether fewer checkpoints from before the fault are there than training, by its plan, left of them.

    Each one that came later can have taken the place of one of them.
    """
    counted = [c for c in case.before_fault if c.uri not in case.damaged]
    later = len(case.run.checkpoints) - len(case.before_fault) if case.run else 0
    there = sum(c.uri in case.evidence.stored for c in counted)
    return there < min(num_to_keep, len(counted)) - later


def went_on(case: Case) -> Answer:
    """Training reported progress after the fault, and began nothing again; or the job failed, as it may."""
    if case.run is None:
        return None, NO_LEDGER
    if case.evidence.job_status == "FAILED" and not case.overtaken:
        newest = case.run.checkpoints[-1] if case.run.checkpoints else None
        place = f"; a new run could resume from {checks.place(case, newest)}" if newest else ""
        return True, f"the job failed{place}"
    since = case.fault.reverted_at if case.fault.reverted_at is not None else case.fault.at
    finished = case.run.finished_at
    if finished is not None and case.fault.at < finished <= since and not case.run.error:
        return True, f"training went on to its end, {finished - case.fault.at:.1f} s after the fault"
    reports = [r for a in case.attempts for r in a.reports if since < r.at < case.until]
    if case.after and any(a.first for a in case.after):
        return checks.resumed(case)
    if not reports:
        over = case.evidence.job_status in OVER
        return (False if over else None), "nothing was reported after the fault"
    first = reports[0]
    waited = first.at - case.fault.at
    return True, f"the same attempt went on: {case.word} {first.progress} came {waited:.1f} s after the fault"


def whole(case: Case) -> Answer:
    """Every service is healthy and the fault is reverted; for faults that no worker node is the target of."""
    return checks.services_healthy(case) or (
        True, f"{checks.count(len(case.evidence.services), 'service')} healthy, the fault is undone"
    )  # fmt: skip


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "nothing"


STORE_QUESTIONS: Mapping[str, Callable[[Case], Answer]] = {
    "job finished": finished_or_clear,
    "a real fault": store_fault,
    "nothing saved is lost": nothing_lost,
    WENT_ON: went_on,
    WHOLE: whole,
}

RANK_QUESTIONS: Mapping[str, Callable[[Case], Answer]] = {
    "job finished": checks.job_finished,
    "a real fault": rank_fault,
    "new processes": new_processes,
    "right checkpoint": checks.right_checkpoint,
    RESUMED: checks.resumed,
    "little lost": checks.little_lost,
    WHOLE: whole,
}

QUESTIONS: Mapping[Expected, Mapping[str, Callable[[Case], Answer]]] = {
    Expected.NODE_LOST: checks.CHECKS,
    Expected.RANK_LOST: RANK_QUESTIONS,
    Expected.CHECKPOINT_DAMAGED: {
        "job finished": checks.job_finished,
        "a real fault": checkpoint_fault,
        "new processes": new_processes,
        "newest intact checkpoint": intact_checkpoint,
        RESUMED: checks.resumed,
        "little lost": checks.little_lost,
        WHOLE: whole,
    },
    Expected.STORE_AWAY: STORE_QUESTIONS,
    Expected.SLOWED: STORE_QUESTIONS,
    Expected.HEAD_LOST: {**STORE_QUESTIONS, "a real fault": head_fault},
}
"""Outcome -> name -> question, in the order of the receipt."""

EVERY_NAME = tuple(dict.fromkeys(name for questions in QUESTIONS.values() for name in questions))
"""Of every check there is."""
