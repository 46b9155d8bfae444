"""What the class does by hand in several lessons: wait for the notebook's job, and break something."""

from __future__ import annotations

from collections.abc import Set

from lab.flows.lessons.model import HostTask, job_prefix
from lab.flows.recovery import FaultRequest, inject
from lab.host.clock import poll
from lab.lab import Lab

START_SECONDS = 600.0
"""Timeout for the notebook's job to begin training."""


def wait_for_training(lab: Lab, task: HostTask, before: Set[str], number: int, part: str) -> tuple[str, str]:
    """The job of this part of a lesson that runs, and the service on which its first rank trains.

    Jobs that were there `before` are another run's. Raises WaitTimeoutError.
    """
    seen = "the notebook has submitted no job"

    def training() -> tuple[str, str] | None:
        nonlocal seen
        for job in lab.jobs.list():
            mine = job.submission_id.startswith(f"{job_prefix(number)}{part}-")
            if job.final or not mine or job.submission_id in before:
                continue
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
