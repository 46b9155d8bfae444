"""Lesson 3: a job that no node can hold. It waits for ever, until somebody cancels it."""

from __future__ import annotations

from lab.ext.course.lessons.catalogue.training import SUBMIT
from lab.ext.course.lessons.model import Evidence, Lesson, answer, failed, passed
from lab.topology import Check

PART = "infeasible"
WAITED_SECONDS = 10.0
"""Least time from the submission to the end: long enough to look at it."""

GIVEN_UP_SECONDS = 840.0
"""A job that lasted longer was not cancelled: Ray gives up at about 900 s."""


def no_node_could_hold_it(evidence: Evidence) -> Check:
    """The job asked for more GPUs than any node has."""
    name = "no node could hold the job"
    job = evidence.job(PART)
    if job is None:
        return failed(name, f"there is no job lesson-03-{PART}-...", SUBMIT)
    asked = evidence.demands.get(job.submission_id, {}).get("GPU", 0)
    most = max((node.resources.get("GPU", 0) for node in evidence.nodes), default=0)
    detail = f"it asked for {asked:g} GPU; the largest node has {most:g}"
    return answer(asked > most, name, detail, f"{SUBMIT}, with --entrypoint-num-gpus 2")


def waited_and_never_ran(evidence: Evidence) -> Check:
    """The job was pending for a while, and no driver of it ever started."""
    name = "it waited and never ran"
    job = evidence.job(PART)
    if job is None or job.started_at is None:
        return failed(name, "no job", SUBMIT)
    if job.node_id or job.exit_code is not None or job.status == "SUCCEEDED":
        where = evidence.service_of(job.node_id) or "a node"
        return failed(
            name, f"it ran on {where} and ended {job.status}", f"{SUBMIT}, with --entrypoint-num-gpus 2"
        )
    if job.ended_at is None:
        return passed(name, f"it is {job.status}")
    waited = job.ended_at - job.started_at
    if waited < WAITED_SECONDS:
        return failed(name, f"it waited only {waited:.0f} s", f"{SUBMIT}, and look at it before you stop it")
    return passed(name, f"it waited {waited:.0f} s")


def was_cancelled(evidence: Evidence) -> Check:
    """The job does not wait any more, because somebody stopped it."""
    name = "it was cancelled"
    job = evidence.job(PART)
    if job is None:
        return failed(name, "no job", SUBMIT)
    if not job.final or job.started_at is None or job.ended_at is None:
        return failed(
            name, f"{job.submission_id} is still {job.status}", f"`labctl jobs stop {job.submission_id}`"
        )
    if job.ended_at - job.started_at >= GIVEN_UP_SECONDS:
        return failed(name, "Ray gave it up after 15 minutes", f"{SUBMIT}, and stop it yourself")
    return passed(name, f"it ended {job.status}")


LESSON = Lesson(
    number=3,
    name="an-infeasible-job",
    title="An infeasible job",
    notebook="03-an-infeasible-job.ipynb",
    minutes=10,
    checks=(no_node_could_hold_it, waited_and_never_ran, was_cancelled),
)
