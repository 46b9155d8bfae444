"""Checks that several lessons share, about the job of one part of a lesson and its newest run."""

from __future__ import annotations

from lab.evidence.ledger import Run, RunAttempt, number
from lab.ext.course.lessons.model import Evidence, LessonCheck, answer, failed, job_prefix, passed
from lab.services import is_worker
from lab.topology import Check

CHANCE = 1 / 11
"""Accuracy of somebody who guesses among the 11 classes of Food-11."""

CLEARLY_ABOVE = 2.5 * CHANCE
"""Four standard deviations above chance: 55 pictures do not reach it by luck."""

SUBMIT = "run the notebook from its first cell"


def run_of(evidence: Evidence, part: str) -> Run | None:
    """The newest run of the newest job of this part; None where there is none."""
    job = evidence.job(part)
    runs = evidence.histories[job.submission_id].runs if job else ()
    return runs[-1] if runs else None


def attempt_of(evidence: Evidence, part: str) -> RunAttempt | None:
    """The last attempt of that run that was placed on nodes."""
    run = run_of(evidence, part)
    return next((a for a in reversed(run.attempts) if a.nodes), None) if run else None


def succeeded(part: str, name: str = "the job succeeded") -> LessonCheck:
    """The job of this part was submitted, and Ray says that it succeeded."""

    def check(evidence: Evidence) -> Check:
        job = evidence.job(part)
        if job is None:
            return failed(name, f"there is no job {job_prefix(evidence.lesson)}{part}-...", SUBMIT)
        if job.status != "SUCCEEDED":
            return failed(name, f"{job.submission_id} is {job.status}", "wait for it, or read its log")
        seconds = (job.ended_at or 0.0) - (job.started_at or 0.0)
        return passed(name, f"{job.submission_id}, {seconds:.0f} s")

    return check


def on_gpu_nodes(part: str, ranks: int, name: str) -> LessonCheck:
    """The run had this many ranks, each with a GPU of its own on a worker node of its own."""

    def check(evidence: Evidence) -> Check:
        run, attempt = run_of(evidence, part), attempt_of(evidence, part)
        if run is None or attempt is None:
            return failed(name, "Ray Train placed no rank", SUBMIT)
        gpus = run.plan.resources_per_worker.get("GPU", 0) if run.plan else 0
        services = [evidence.service_of(attempt.nodes[rank]) for rank in sorted(attempt.nodes)]
        detail = (
            f"{len(services)} on {', '.join(s or 'an unknown node' for s in services)}, {gpus:g} GPU each"
        )
        apart = len(services) == len(set(services)) == ranks and all(map(is_worker, services))
        return answer(apart and gpus >= 1, name, detail, f"{SUBMIT}, with --workers {ranks} --gpus 1")

    return check


def learned(part: str) -> LessonCheck:
    """The last accuracy that the run reported is clearly above chance."""
    name = "it learned something"

    def check(evidence: Evidence) -> Check:
        run = run_of(evidence, part)
        accuracy = number(run.last.metrics.get("val_accuracy")) if run and run.last else None
        if accuracy is None:
            return failed(name, "no val_accuracy was reported", SUBMIT)
        return above_chance(name, accuracy)

    return check


def above_chance(name: str, accuracy: float) -> Check:
    """Passed when the accuracy is clearly above that of guessing."""
    detail = f"accuracy {accuracy:.2f}, guessing gives {CHANCE:.2f}"
    return answer(accuracy >= CLEARLY_ABOVE, name, detail, f"{SUBMIT}, with more epochs: --epochs")
