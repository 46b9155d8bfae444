"""Lesson 9: see what is left, stop what runs, and take the lab down without losing what was stored."""

from __future__ import annotations

from lab.ext.course.lessons.model import SUBMIT, Evidence, Lesson, NotDoneError, check, holds
from lab.topology import State

PART = "forgotten"


@check("no job is left running")
def nothing_runs(evidence: Evidence) -> str:
    """No job of the lab is running or waiting."""
    left = evidence.running
    if left:
        raise NotDoneError(", ".join(left), f"`labctl jobs stop {left[0]}`")
    return "every job has ended"


@check("the forgotten job was stopped")
def forgotten_job_stopped(evidence: Evidence) -> str:
    """The job that would have run for an hour was stopped.

    One that no node had started ends as FAILED, with neither a node nor an exit code.
    """
    job = evidence.submitted(PART)
    if job.status == "FAILED" and not job.node_id and job.exit_code is None:
        return f"{job.submission_id} was taken out of the queue"
    hint = SUBMIT if job.final else f"`labctl jobs stop {job.submission_id}`"
    return holds(job.status == "STOPPED", f"{job.submission_id} is {job.status}", hint)


@check("what is kept was counted", "run the notebook's cell that looks into the store")
def what_is_kept_was_counted(evidence: Evidence) -> str:
    """The notebook counted what the store holds, and found at least what this lesson itself keeps there."""
    recorded = evidence.records.get("kept") or {}
    objects, size = int(recorded.get("objects", 0)), int(recorded.get("bytes", 0))
    holds(objects > 0 and size > 0, "nothing was counted")
    return f"{objects} objects, {size / 1e6:.1f} MB"


@check("the lab is down", "on the host: `labctl down`, then `labctl lesson check 9`")
def services_are_down(evidence: Evidence) -> str:
    left = [s.service for s in evidence.status.services if s.state not in (State.ABSENT, State.EXITED)]
    holds(not left and not evidence.status.up, f"still there: {', '.join(left) or 'the lab is up'}")
    return "no service runs"


@check("what was stored is kept", "`labctl down` keeps them, `labctl down --volumes` does not")
def objects_are_kept(evidence: Evidence) -> str:
    """Stored objects outlive the lab."""
    return holds(bool(evidence.kept), ", ".join(evidence.kept) or "no stored object is left")


LESSON = Lesson(
    number=9,
    name="clean-up",
    title="Clean up",
    minutes=5,
    in_class=False,
    checks=(nothing_runs, forgotten_job_stopped, what_is_kept_was_counted),
    checks_after_down=(services_are_down, objects_are_kept),
)
