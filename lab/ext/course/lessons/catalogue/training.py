"""Checks that several lessons share, about the job of one part of a lesson, its newest run, its receipt."""

from __future__ import annotations

from lab.api.receipt import CHECKS, ReceiptDocument, Verdict
from lab.cluster.jobs import Job
from lab.evidence.ledger import Run, RunAttempt, number
from lab.ext.course.lessons.catalogue.breaking import INJECT
from lab.ext.course.lessons.model import SUBMIT, Evidence, LessonCheck, check, holds, need
from lab.services import is_worker

CHANCE = 1 / 11
"""Accuracy of somebody who guesses among the 11 classes of Food-11."""

CLEARLY_ABOVE = 2.5 * CHANCE
"""Four standard deviations above chance: 55 pictures do not reach it by luck."""


def run_of(evidence: Evidence, part: str) -> Run:
    """The newest run of the newest job of this part. Raises NotDoneError."""
    runs = evidence.histories[evidence.submitted(part).submission_id].runs
    return need(runs[-1] if runs else None, "Ray Train has run nothing", SUBMIT)


def attempt_of(evidence: Evidence, part: str) -> RunAttempt:
    """The last attempt of that run that was placed on nodes. Raises NotDoneError."""
    attempts = reversed(run_of(evidence, part).attempts)
    return need(next((a for a in attempts if a.nodes), None), "Ray Train placed no rank", SUBMIT)


def epochs_of(evidence: Evidence, part: str) -> float:
    """The planned epochs of that run. Raises NotDoneError."""
    plan = run_of(evidence, part).plan
    return need(plan.epochs if plan else None, "the run has no planned number of epochs", SUBMIT)


def gpus_of(run: Run) -> float:
    """What each rank of a run asked for."""
    return run.plan.resources_per_worker.get("GPU", 0) if run.plan else 0


def span_of(job: Job) -> tuple[float, float]:
    """Start and end of a job. Raises NotDoneError for one that has not ended."""
    lack = f"{job.submission_id} has not ended"
    return need(job.started_at, lack, "wait for it"), need(job.ended_at, lack, "wait for it")


def succeeded(part: str, name: str = "the job succeeded") -> LessonCheck:
    """The job of this part was submitted, and Ray says that it succeeded."""

    @check(name, "wait for it, or read its log")
    def look(evidence: Evidence) -> str:
        job = evidence.submitted(part)
        holds(job.status == "SUCCEEDED", f"{job.submission_id} is {job.status}")
        return f"{job.submission_id}, {(job.ended_at or 0) - (job.started_at or 0):.0f} s"

    return look


def on_gpu_nodes(part: str, ranks: int, name: str) -> LessonCheck:
    """The run had this many ranks, each with a GPU of its own on a worker node of its own."""

    @check(name, f"{SUBMIT}, with --workers {ranks} --gpus 1")
    def look(evidence: Evidence) -> str:
        nodes, gpus = attempt_of(evidence, part).nodes, gpus_of(run_of(evidence, part))
        services = [evidence.service_of(nodes[rank]) for rank in sorted(nodes)]
        where = ", ".join(service or "an unknown node" for service in services)
        apart = len(services) == len(set(services)) == ranks and all(map(is_worker, services))
        return holds(apart and gpus >= 1, f"{len(services)} on {where}, {gpus:g} GPU each")

    return look


def learned(part: str) -> LessonCheck:
    """The last accuracy that the run reported is clearly above chance."""

    @check("it learned something")
    def look(evidence: Evidence) -> str:
        last = need(run_of(evidence, part).last, "nothing was reported")
        return above_chance(need(number(last.metrics.get("val_accuracy")), "no val_accuracy was reported"))

    return look


def above_chance(accuracy: float) -> str:
    """What is said of an accuracy. Raises NotDoneError unless it is clearly above that of guessing."""
    detail = f"accuracy {accuracy:.2f}, guessing gives {CHANCE:.2f}"
    return holds(accuracy >= CLEARLY_ABOVE, detail, f"{SUBMIT}, with more epochs: --epochs")


def receipt_of(evidence: Evidence, part: str, fault: str) -> ReceiptDocument:
    """The newest receipt of this part's job for this fault. Raises NotDoneError."""
    newest = next((r for r in reversed(evidence.receipts_of(part)) if r.fault.kind == fault), None)
    return need(newest, f"there is no receipt of {fault} for the job {part}", INJECT)


def asks(part: str, fault: str, question: str, name: str, hint: str = INJECT) -> LessonCheck:
    """A check that has the receipt's answer to a question."""

    @check(name, hint)
    def look(evidence: Evidence) -> str:
        checks = receipt_of(evidence, part, fault).checks
        match = next((check for check in checks if check.id == question), None)
        match = need(match, f"no receipt of {fault} answers: {CHECKS[question]}", INJECT)
        return holds(match.passed, match.detail)

    return look


def says(part: str, fault: str, verdict: Verdict, name: str) -> LessonCheck:
    """A check that the receipt has this verdict."""

    @check(name)
    def look(evidence: Evidence) -> str:
        receipt = receipt_of(evidence, part, fault)
        return holds(receipt.verdict is verdict, f"{receipt.verdict.value}: {receipt.reason}")

    return look
