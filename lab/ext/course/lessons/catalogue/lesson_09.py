"""Lesson 9: see what is left, stop what runs, and take the lab down without losing what was stored."""

from __future__ import annotations

from lab.ext.course.lessons.catalogue.training import SUBMIT
from lab.ext.course.lessons.model import Evidence, Lesson, failed, passed
from lab.topology import Check, State

PART = "forgotten"


def nothing_runs(evidence: Evidence) -> Check:
    """No job of the lab is running or waiting."""
    name = "no job is left running"
    if evidence.running:
        return failed(name, ", ".join(evidence.running), f"`labctl jobs stop {evidence.running[0]}`")
    return passed(name, "every job has ended")


def forgotten_job_stopped(evidence: Evidence) -> Check:
    """The job that would have run for an hour was stopped.

    One that no node had started ends as FAILED, with neither a node nor an exit code.
    """
    name = "the forgotten job was stopped"
    job = evidence.job(PART)
    if job is None:
        return failed(name, f"there is no job lesson-09-{PART}-...", SUBMIT)
    if job.status == "STOPPED":
        return passed(name, f"{job.submission_id} is STOPPED")
    if job.status == "FAILED" and not job.node_id and job.exit_code is None:
        return passed(name, f"{job.submission_id} was taken out of the queue")
    hint = SUBMIT if job.final else f"`labctl jobs stop {job.submission_id}`"
    return failed(name, f"{job.submission_id} is {job.status}", hint)


def what_is_kept_was_counted(evidence: Evidence) -> Check:
    """The notebook counted what the store holds, and found at least what this lesson itself keeps there."""
    name = "what is kept was counted"
    recorded = evidence.records.get("kept") or {}
    objects, size = recorded.get("objects"), recorded.get("bytes")
    if not isinstance(objects, int) or not isinstance(size, int) or objects < 1 or size < 1:
        return failed(name, "nothing was counted", "run the notebook's cell that looks into the store")
    return passed(name, f"{objects} objects, {size / 1e6:.1f} MB")


def services_are_down(evidence: Evidence) -> Check:
    """No service of the lab runs."""
    name = "the lab is down"
    left = [s.service for s in evidence.status.services if s.state not in (State.ABSENT, State.EXITED)]
    if left or evidence.status.up:
        detail = ", ".join(left) or "the lab is up"
        return failed(
            name, f"still there: {detail}", "on the host: `labctl down`, then `labctl lesson check 9`"
        )
    return passed(name, "no service runs")


def objects_are_kept(evidence: Evidence) -> Check:
    """Stored objects outlive the lab."""
    name = "what was stored is kept"
    if evidence.kept:
        return passed(name, ", ".join(evidence.kept))
    return failed(
        name, "no stored object is left", "`labctl down` keeps them, `labctl down --volumes` does not"
    )


LESSON = Lesson(
    number=9,
    name="clean-up",
    title="Clean up",
    notebook="09-clean-up.ipynb",
    minutes=5,
    in_class=False,
    checks=(nothing_runs, forgotten_job_stopped, what_is_kept_was_counted),
    checks_after_down=(services_are_down, objects_are_kept),
)
