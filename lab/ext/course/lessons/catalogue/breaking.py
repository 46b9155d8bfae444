"""What the class does by hand in several lessons: wait for the notebook's job, and break something."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from lab.ext.course.lessons.model import HostTask, job_prefix
from lab.flows.recovery import FaultRequest, inject
from lab.host.clock import poll
from lab.lab import Lab

INJECT = "type the command of the notebook on the host while the job trains"
"""Hint of checks that found nothing broken."""

START_SECONDS = 900.0
"""Timeout for the notebook to submit its job."""


def wait_for_job(lab: Lab, task: HostTask, number: int, part: str, before: Set[str]) -> str:
    """The job of this part of a lesson that the notebook has submitted; those `before` are another run's.

    Raises WaitTimeoutError.
    """
    begin = f"{job_prefix(number)}{part}-"

    def submitted() -> str | None:
        running = (job.submission_id for job in lab.jobs.list() if not job.final)
        return next((job for job in running if job.startswith(begin) and job not in before), None)

    return poll(
        submitted, timeout=START_SECONDS, clock=task.clock, waited_for=f"job {begin}... of the notebook",
        hint="look at `labctl jobs`",
    )  # fmt: skip


def breaks(
    number: int, parts: Sequence[str], kind: str, after_epoch: int | None = None
) -> Callable[[Lab, HostTask], None]:
    """A host task: inject a fault into the job of each part, where its first rank trains, and tell its story
    with the verdict, as the class does by hand. It raises WaitTimeoutError, and what `inject` raises.
    """

    def task_of(lab: Lab, task: HostTask) -> None:
        before = {job.submission_id for job in lab.jobs.list()}
        for part in parts:
            job = wait_for_job(lab, task, number, part, before)
            task.say(f"labctl fault-inject --fault {kind} --job {job}")
            request = FaultRequest("", kind, job, after_epoch=after_epoch)
            outcome = inject(lab, request, lambda moment: task.say(moment.text), clock=task.clock)
            if outcome.receipt is not None:
                task.say(f"receipt: {outcome.receipt.verdict.value}: {outcome.receipt.reason}")

    return task_of
