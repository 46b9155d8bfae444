"""`preemption`: a job of another queue, or of a higher priority, takes the quota that the job holds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from lab.api.queue import Description
from lab.api.quotas import QueuesView
from lab.cluster.queue_request import QueueRequest, of_command
from lab.cluster.queues import OVER, Queues
from lab.cluster.submission import Submission
from lab.errors import LabError, NotFoundError, RefusedError, WaitTimeoutError
from lab.faults import Expected, Fault, FaultKind, Parameter, Scene, Scope, Traits
from lab.faults.kinds._queues import queues_of
from lab.host.clock import settle

WAIT_SECONDS = 300.0
"""Deadline for the other job to begin: the preempted one is given time for a checkpoint, and stopped."""

MORE = 8
"""Workers that the other job may have beyond those of this one: what is free has to be taken first."""

HINT = "`reclaimWithinCohort` and `withinClusterQueue` of the ClusterQueues say who may: labctl queue get"


class Preempt(Fault):
    """A real job is submitted to a queue that may take the quota, and runs for a time."""

    kind = FaultKind(
        name="preemption",
        summary="a job of another queue, or of higher priority, takes the quota of a job that was queued",
        scope=Scope.QUEUE,
        parameters=(Parameter("hold", "s", "how long the other job runs", 10.0, 0.1, 3600.0),),
        revert="the other job ends, and the preempted one is admitted again",
        expected=Expected.PREEMPTED,
        traits=Traits("preempted the job"),
    )

    def inject(self, scene: Scene) -> None:
        """Submit a job that preempts this one. Raises RefusedError where no queue may."""
        queues = queues_of(scene)
        victim = _victim(queues, scene.job)
        request = _rival(queues, victim)
        hold = float(scene.parameters["hold"])
        sleeper = Submission(
            ("python", "-c", f"import time; time.sleep({hold:g})"),
            metadata={"job_name": f"preempts-{victim.name}"},
        )
        rival = queues.submit(of_command(sleeper, request))
        scene.note(rival=rival.workload, queue=request.queue)

    def took(self, scene: Scene) -> bool:
        """Tell whether the other job was submitted."""
        return "rival" in scene.memo

    def revert(self, scene: Scene) -> None:
        """Wait until the other job has ended, and end it when it takes too long. Raises WaitTimeoutError."""
        rival = scene.memo.get("rival")
        if rival is None:
            return
        queues, hold = queues_of(scene), float(scene.parameters.get("hold", 0.0))

        def look() -> str:
            try:
                return queues.describe(rival).status
            except NotFoundError:
                return OVER[0]

        if settle(look, OVER.__contains__, timeout=hold + WAIT_SECONDS, clock=self.clock) in OVER:
            return
        with contextlib.suppress(NotFoundError):
            queues.cancel(rival, "the fault is undone")
        status = settle(look, OVER.__contains__, timeout=WAIT_SECONDS, clock=self.clock)
        if status not in OVER:
            raise WaitTimeoutError(f"job {rival} has not ended: it is {status}", f"labctl jobs stop {rival}")


def _victim(queues: Queues, job: str) -> Description:
    """Return the job's workload, which must hold quota. Raises RefusedError."""
    try:
        workload = queues.describe(job)
    except NotFoundError as error:
        raise RefusedError(
            f"job {job} is in no queue, so nobody can preempt it", "labctl submit RECIPE --queue NAME"
        ) from error
    if workload.status != "Admitted":
        raise RefusedError(f"job {job} holds no quota: it is {workload.status}", HINT)
    return workload


def _rival(queues: Queues, victim: Description) -> QueueRequest:
    """Return a request for which the queues would preempt this workload and no other. Raises RefusedError."""
    tried = []
    for request in _requests(queues.queues(), victim):
        tried.append(request.queue)
        sleeper = Submission(("python", "-c", ""))
        try:
            answer = queues.dry_run(of_command(sleeper, request))
        except LabError:
            continue
        if answer.preempts == (victim.workload,):
            return request
    asked = ", ".join(dict.fromkeys(tried)) or "none"
    raise RefusedError(
        f"no queue may preempt {victim.workload} of {victim.cluster_queue} now; asked: {asked}", HINT
    )


def _requests(queues: QueuesView, victim: Description) -> Iterator[QueueRequest]:
    """Requests that might do: other queues first, then higher priorities; the size of the job first."""
    order = sorted(queues.local_queues, key=lambda queue: queue.cluster_queue == victim.cluster_queue)
    above = [
        priority_class.name
        for priority_class in queues.priority_classes
        if priority_class.value > victim.priority
    ]
    sizes = list(_sizes(victim))
    for priority in ("", *above):
        for queue in order:
            for count, gpus, cpus, memory in sizes:
                yield QueueRequest(
                    f"{queue.namespace}/{queue.name}", priority, workers=count, gpus_per_worker=gpus,
                    cpus_per_worker=cpus, memory_per_worker=memory,
                )  # fmt: skip


def _sizes(victim: Description) -> Iterator[tuple[int, float, float, int]]:
    """Count of workers, and GPUs, CPUs and bytes of each."""
    pods = max(victim.pod_sets, key=lambda pod_set: pod_set.count * (1 + len(pod_set.requests)))
    requests = pods.requests
    gpus = next((amount for name, amount in requests.items() if name.endswith("/gpu")), 0)
    own = pods.count
    for count in (*range(own, 0, -1), *range(own + 1, own + 1 + MORE)):
        yield count, float(gpus), float(requests.get("cpu", 0)), int(requests.get("memory", 0))
