"""The judge: from evidence to verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from lab.api.receipt import (
    AttemptDocument,
    CheckDocument,
    CheckpointProof,
    ExpectedDocument,
    FaultDocument,
    JobDocument,
    OtherRun,
    Preemption,
    ReceiptDocument,
    Steering,
    Timeline,
    Verdict,
    WorldSize,
)
from lab.evidence.ledger import History, RunAttempt, began, epochs_of, manifest_sha256
from lab.evidence.receipt import work
from lab.evidence.receipt.breakdown import breakdown, stepped_at
from lab.evidence.receipt.case import Case, name
from lab.evidence.receipt.model import NOT_REVERTED, Evidence
from lab.evidence.receipt.questions import RESUMED, STATE, SURVIVED, WENT_ON, WHOLE, run_checks
from lab.evidence.receipt.questions.resume import likely_reason
from lab.host.quantities import plural, rounded
from lab.topology import JOB_FINAL

T = TypeVar("T", Timeline, Preemption | None, Steering | None)


def judge(evidence: Evidence) -> ReceiptDocument:
    """Decide whether training recovered from the fault. Missing evidence never gives `recovered`.

    A question that could not be asked by design, as that for the lab where there is none, takes nothing from
    a verdict on the training; any other one that was skipped counts as not known.

    Only the ledger of that job counts. Of several runs the one is judged that the fault was aimed at, or
    where that is not known, the worst of those that it hit. A control run counts where both jobs have one
    run: which of several would be the same one is not known.
    """
    history = History.of(e for e in evidence.events if e.job == evidence.submission_id)
    alike = evidence.control is not None and len(history.runs) == len(evidence.control.runs) == 1
    control = evidence.control.runs[0] if evidence.control is not None and alike else None
    cases = [Case(evidence, run, control) for run in history.runs]
    aimed = [case for case in cases if case.run and case.run.name == evidence.fault.run]
    chosen = aimed or [case for case in cases if case.hit] or cases[-1:] or [Case(evidence, None)]
    receipt = min((_receipt(case) for case in chosen), key=lambda r: list(Verdict).index(r.verdict))
    others = tuple(_other(case) for case in cases if case.run and case.run.name != receipt.run)
    return replace(receipt, others=others)


def _other(case: Case) -> OtherRun:
    """Return the line of a run that is not the one that was judged."""
    run = case.run
    assert run is not None
    if case.hit is not None:
        receipt = _receipt(case)
        return OtherRun(run.name, receipt.verdict, receipt.reason)
    done = epochs_of(run)
    where = f" at {done.position(done.last)}" if done and done.last is not None else ""
    ended = "it was stopped by Tune" if run.stopped else "it ended" if run.finished_at else "it trains"
    return OtherRun(run.name, None, f"not hit: {ended}{where}")


def _receipt(case: Case) -> ReceiptDocument:
    checks, missing = run_checks(case), gaps(case)
    verdict, reason = _verdict(case, checks, missing)
    unasked = (c.detail if c.id == STATE else f"not asked: {c.name}" for c in checks if c.skipped)
    reason = "; ".join([reason, *unasked])
    evidence, fault, run = case.evidence, case.fault, case.run
    stages = breakdown(run, case.hit, case.new, fault.at) if run and case.hit and case.new else None
    return ReceiptDocument(
        verdict=verdict,
        reason=reason,
        fault=FaultDocument(
            kind=fault.kind,
            target=fault.target,
            effect=fault.traits.effect,
            at=round(fault.at, 3),
            done_at=rounded(fault.done_at),
            reverted_at=rounded(fault.reverted_at),
            parameters=fault.parameters,
        ),
        expected=ExpectedDocument(fault.expected.value, fault.expected.text),
        timeline=_rounded(_timeline(case)),
        checkpoint=_proof(case),
        attempts=tuple(_attempt(case, a) for a in case.attempts),
        world_size=tuple(
            WorldSize(round(a.started_at, 3), len(a.nodes)) for a in case.attempts if a.started_at and a.nodes
        ),
        lost_epochs=work.lost(case),
        lost_work=work.lost_work(case),
        breakdown=stages and {stage: rounded(seconds) for stage, seconds in stages.items()},
        job=JobDocument(evidence.submission_id, evidence.job_status, evidence.resubmitted_as or None),
        preemption=_rounded(evidence.preemption),
        health=_rounded(evidence.health),
        survivors=None if case.survival is None else case.survival.document(),
        checks=checks,
        not_asked={source.value: why for source, why in evidence.not_asked.items()},
        run=run.name if run else None,
        epoch_key=run.progress_key if run else None,
        patches=run.patches if run else None,
        problems=(*evidence.problems, *missing),
        control=None,
    )


def _rounded(item: T) -> T:
    """Return a copy whose times, which are all its floats, are in milliseconds' precision."""
    times = {name: round(at, 3) for name, at in vars(item).items() if isinstance(at, float)} if item else {}
    return replace(item, **times) if item else item  # type: ignore[arg-type]


MAY_BE_SKIPPED = (WHOLE, STATE)
"""Questions that take no verdict from the training where they could not be asked; the receipt says so."""


def _verdict(case: Case, answers: tuple[CheckDocument, ...], missing: tuple[str, ...]) -> tuple[Verdict, str]:
    checks = tuple(check for check in answers if not (check.skipped and check.id in MAY_BE_SKIPPED))
    if restarted := _restarted(case):
        return Verdict.RESTARTED, restarted
    job, fault = checks[0], checks[1]
    ended_badly = case.evidence.job_status in JOB_FINAL and case.evidence.job_status != "SUCCEEDED"
    if ended_badly and job.known and not job.passed:
        return Verdict.FAILED, job.detail
    unproven = next((c for c in (fault, *checks) if not c.passed and not c.known), None)
    wrong = next((c for c in checks if not c.passed and c.known), None)
    unread = [*(p for p in case.evidence.problems if not p.startswith(NOT_REVERTED)), *missing]
    over, resumed = case.evidence.job_status in JOB_FINAL, case.new is not None
    if wrong and not missing and fault.passed and over and (resumed or not case.fault.expected.resumes):
        if wrong.id != WHOLE:
            return Verdict.FAILED, f"{wrong.name}: {wrong.detail}"
        undone = "; ".join((wrong.detail, *(p for p in case.evidence.problems if p not in unread)))
        if unproven or unread:
            why = "; ".join([*unread, *(c.detail for c in (unproven,) if c)])
            return Verdict.FAILED, f"the lab is not whole: {undone}; nor is the recovery proven: {why}"
        return Verdict.FAILED, f"{_went_well(case, checks)}, but the lab is not whole: {undone}"
    if unproven and unproven.id == WHOLE and not (wrong or unread):
        said = _went_well(case, checks)
        return Verdict.NOT_VERIFIED, f"{said}; whether the lab is whole is not known: {unproven.detail}"
    if unproven or wrong or unread or case.evidence.problems:
        causes = [*missing, *case.evidence.problems, *(c.detail for c in (unproven or wrong,) if c)]
        return Verdict.NOT_VERIFIED, "; ".join(causes)
    return _good(case, checks)


def _restarted(case: Case) -> str:
    """Return a sentence on the attempt that began again from the start; empty where none did."""
    if case.restarted is None:
        return ""
    attempt, rank = case.restarted
    base, first = case.newest_for(attempt), attempt.first_of(rank)
    assert base is not None
    assert first is not None
    who = f"rank {rank} of attempt {attempt.number}" if rank else f"attempt {attempt.number}"
    return (
        f"{who} began again with {case.word} {first.progress} although there was a checkpoint of {case.word} "
        f"{base.progress}; likely, {likely_reason(case, attempt, rank)}"
    )


def _good(case: Case, checks: tuple[CheckDocument, ...]) -> tuple[Verdict, str]:
    """Return the verdict where every check on the training has passed."""
    details = {c.id: c.detail for c in checks}
    ended_well = case.evidence.job_status == "SUCCEEDED" or case.overtaken
    if RESUMED in details and ended_well:
        return Verdict.RECOVERED if STATE in details else Verdict.RESUMED, details[RESUMED]
    return Verdict.AS_EXPECTED, details.get(SURVIVED) or details.get(WENT_ON) or checks[0].detail


def _went_well(case: Case, checks: tuple[CheckDocument, ...]) -> str:
    verdict, why = _good(case, checks)
    return f"training {'went as it should' if verdict is Verdict.AS_EXPECTED else verdict.value} ({why})"


def _timeline(case: Case) -> Timeline:
    def after(at: float | None) -> float | None:
        return None if at is None else at - case.fault.at

    node, hit, new, back = case.node(case.fault.node_id), case.hit, case.new, case.rejoined
    loads = case.restores(new) if new else ()
    return Timeline(
        node_dead=after(node.ended_at) if node and node.alive is False else None,
        failure_detected=after(hit.failure_detected_at) if hit else None,
        attempt_started=after(new.started_at) if new else None,
        restored=after(min((load.at for load in loads), default=None)),
        first_step=after(stepped_at(new)) if new else None,
        first_report=after(new.trained_at) if new else None,
        node_rejoined=after(back.started_at) if back else None,
    )


def _proof(case: Case) -> CheckpointProof | None:
    if case.new is not None and case.remembered(case.new) is not None:
        return None  # it resumed from no checkpoint
    right = case.right or (case.before_fault[-1] if case.before_fault else None)
    if right is None:
        return None
    loads = sorted(case.restores(case.new), key=lambda load: load.uri != right.uri) if case.new else ()
    loaded = next((load.files for load in loads if load.files), None)
    return CheckpointProof(
        uri=right.uri,
        epoch=right.progress,
        saved_sha256=right.sha256(loaded),
        loaded_sha256=manifest_sha256(loaded) if loaded else None,
    )


def _attempt(case: Case, attempt: RunAttempt) -> AttemptDocument:
    return AttemptDocument(
        attempt=attempt.number,
        nodes=tuple(case.service(attempt.nodes[rank]) for rank in sorted(attempt.nodes)),
        first_epoch=attempt.first.progress if attempt.first else None,
        last_epoch=attempt.furthest,
        started_at=rounded(attempt.started_at),
        ended_at=rounded(attempt.ended_at),
        began_with=began(case.run, attempt),
    )


def gaps(case: Case) -> tuple[str, ...]:
    """Return a sentence for each part of the ledger that must have been there, and is not.

    Where there is any, nothing is proven, and nobody is accused.
    """
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
    ranks = sorted(attempt.nodes)
    silent = [rank for rank in ranks if rank not in attempt.writers] if started else []
    if silent:
        return [f"rank {silent[0]} {here} has recorded nothing"]
    groups = case.run is not None and case.run.plan is not None and case.run.plan.replica_groups
    if groups or not (attempt.by_rank or attempt.taken_up):
        return []  # whichever rank is there reports; or none had to
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
            which = name(uri) or "a checkpoint that was being uploaded"
            return f"whether {which} was committed before its controller was lost is not in it"
    return ""
