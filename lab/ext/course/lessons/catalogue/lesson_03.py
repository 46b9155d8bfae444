"""Lesson 3: a job that no node can hold. It waits for ever, until somebody cancels it."""

from __future__ import annotations

from lab.ext.course.lessons.model import SUBMIT, Evidence, Lesson, check, holds, need

PART = "infeasible"
WAITED_SECONDS = 10.0
"""Least time from the submission to the end: long enough to look at it."""

GIVEN_UP_SECONDS = 840.0
"""A job that lasted longer was not cancelled: Ray gives up at about 900 s."""

TWO_GPUS = f"{SUBMIT}, with --entrypoint-num-gpus 2"


@check("no node could hold the job", TWO_GPUS)
def no_node_could_hold_it(evidence: Evidence) -> str:
    asked = evidence.demand(PART).get("GPU", 0)
    most = max((node.resources.get("GPU", 0) for node in evidence.nodes), default=0)
    return holds(asked > most, f"it asked for {asked:g} GPU; the largest node has {most:g}")


@check("it waited and never ran", f"{SUBMIT}, and look at it before you stop it")
def waited_and_never_ran(evidence: Evidence) -> str:
    """The job was pending for a while, and no driver of it ever started."""
    job = evidence.submitted(PART)
    ran = job.node_id or job.exit_code is not None or job.status == "SUCCEEDED"
    where = evidence.service_of(job.node_id) or "a node"
    holds(not ran, f"it ran on {where} and ended {job.status}", TWO_GPUS)
    if job.started_at is None or job.ended_at is None:
        return f"it is {job.status}"
    waited = job.ended_at - job.started_at
    return holds(waited >= WAITED_SECONDS, f"it waited {waited:.0f} s")


@check("it was cancelled", f"{SUBMIT}, and stop it yourself")
def was_cancelled(evidence: Evidence) -> str:
    """The job does not wait any more, because somebody stopped it."""
    job = evidence.submitted(PART)
    still, stop = f"{job.submission_id} is still {job.status}", f"`labctl jobs stop {job.submission_id}`"
    begin, end = need(job.started_at, still, stop), need(job.ended_at, still, stop)
    holds(job.final, still, stop)
    holds(end - begin < GIVEN_UP_SECONDS, "Ray gave it up after 15 minutes")
    return f"it ended {job.status}"


LESSON = Lesson(
    number=3,
    name="an-infeasible-job",
    title="An infeasible job",
    minutes=10,
    checks=(no_node_could_hold_it, waited_and_never_ran, was_cancelled),
)
