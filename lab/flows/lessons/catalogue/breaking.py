"""What the class does by hand in several lessons: wait for the notebook's job, and break something."""

from __future__ import annotations

from collections.abc import Iterator, Set

from lab.cluster.jobs import Job
from lab.flows.lessons.model import HostTask, job_prefix
from lab.flows.recovery import FaultRequest, inject
from lab.host.clock import poll
from lab.lab import Lab

INJECT = "type the command of the notebook on the host while the job trains"
"""Hint of checks that found nothing broken."""

START_SECONDS = 600.0
"""Timeout for the notebook's job to begin training."""


def jobs_of(lab: Lab, number: int, part: str, before: Set[str]) -> Iterator[Job]:
    """Yield the jobs of this part of a lesson that have not ended; those `before` are another run's."""
    begin = f"{job_prefix(number)}{part}-"
    for job in lab.jobs.list():
        if not job.final and job.submission_id.startswith(begin) and job.submission_id not in before:
            yield job


def wait_for_training(lab: Lab, task: HostTask, before: Set[str], number: int, part: str) -> tuple[str, str]:
    """The first of `jobs_of` that trains, and the service of its first rank. Raises WaitTimeoutError."""
    seen = "the notebook has submitted no job"

    def training() -> tuple[str, str] | None:
        nonlocal seen
        for job in jobs_of(lab, number, part, before):
            seen = f"job {job.submission_id} is {job.status} and does not train"
            runs = lab.history(job.submission_id).runs
            nodes = runs[0].attempts[-1].nodes if runs and runs[0].attempts else {}
            services = {node.node_id: node.service for node in lab.api.nodes()}
            if nodes and nodes[min(nodes)] in services:
                return job.submission_id, services[nodes[min(nodes)]]
        return None

    return poll(
        training,
        timeout=START_SECONDS,
        waited_for=f"a training of lesson {number}",
        clock=task.clock,
        state=lambda: seen,
        hint="look at `labctl jobs`",
    )


def break_for(lab: Lab, task: HostTask, request: FaultRequest) -> None:
    """Inject a fault, and tell its story with the receipt's verdict. Raises what `inject` raises."""
    outcome = inject(lab, request, lambda moment: task.say(moment.text), clock=task.clock)
    if outcome.receipt is not None:
        task.say(f"receipt: {outcome.receipt.verdict.value}: {outcome.receipt.reason}")
