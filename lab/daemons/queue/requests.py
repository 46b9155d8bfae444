"""Requests to the queues as the jobs and workloads that they ask for; their shapes are those of lab.api."""

from __future__ import annotations

import json
import math

from kueue.model import PodSet, Setup, Workload
from kueue.reading import DEFAULT_NAMESPACE
from kueue.reading.nodes import meant
from lab.api.base import Number
from lab.api.queue_requests import JobRequest, Workers
from lab.cluster.queues import RESERVED
from lab.cluster.retries import RetryPolicy
from lab.cluster.submission import check_startable
from lab.daemons.pages import printable
from lab.daemons.queue.model import DRIVER, GRACE_SECONDS, WORKERS, QueuedJob
from lab.errors import NotFoundError, UsageError
from lab.host.reading import SMALL


def queue_of(name: str, setup: Setup) -> tuple[str, str]:
    """Namespace and name of a LocalQueue, from `NAME` or `NAMESPACE/NAME`. NotFoundError, UsageError."""
    space, slash, local = name.rpartition("/")
    matches = [door for door in setup.local_queues if door[1] == local and (not slash or door[0] == space)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(sorted("/".join(door) for door in matches))
        raise UsageError(f"{name} is a LocalQueue in several namespaces: {names}", "give NAMESPACE/NAME")
    known = ["/".join(door) for door in setup.local_queues]
    hint = meant(name, [*known, *(door[1] for door in setup.local_queues)])
    first = "make some: labctl queue apply --example classroom"
    there = f"there are: {', '.join(sorted(known)[:20])}" if known else first
    raise NotFoundError(f"there is no LocalQueue {name}", hint or there)


def priority_of(name: str, setup: Setup) -> int:
    """The value of a WorkloadPriorityClass; without a name that of the default one, else 0. NotFoundError."""
    classes = setup.priority_classes
    if name:
        matches = [priority_class for priority_class in classes if priority_class.name == name]
        if not matches:
            known = [priority_class.name for priority_class in classes]
            hint = meant(name, known) or f"there are: {', '.join(known) or 'none'}"
            raise NotFoundError(f"there is no WorkloadPriorityClass {name}", hint)
        return min(matches, key=lambda priority_class: priority_class.pods).value
    defaults = [priority_class for priority_class in classes if priority_class.default]
    return min(defaults, key=lambda priority_class: priority_class.pods).value if defaults else 0


def workload(asked: JobRequest, name: str, setup: Setup, resource: str, now: float) -> Workload:
    """The Workload of a job; `resource` is what a GPU is called. Raises NotFoundError, UsageError."""
    if not asked.queue:
        _check_unqueued(asked)
    space, queue = queue_of(asked.queue, setup) if asked.queue else (DEFAULT_NAMESPACE, "")
    return Workload(
        space,
        name,
        queue,
        _pod_sets(asked, resource),
        created=now,
        priority=priority_of(asked.priority_class, setup),
        max_execution=None if asked.max_time is None else float(math.ceil(asked.max_time)),
    )


def _check_unqueued(asked: JobRequest) -> None:
    """Refuse a job without a queue that nothing is to be watched of, or that asks for what a queue keeps."""
    if asked.retry is None and asked.max_time is None:
        raise UsageError(
            "the request: queue is missing", "only a job with a retry policy or a time limit may name none"
        )
    only_queued = {
        "priority_class": bool(asked.priority_class),
        "enforce": asked.enforce,
        "workers.min_count": asked.workers is not None and asked.workers.min_count is not None,
    }
    for name, given in only_queued.items():
        if given:
            raise UsageError(f"the request: {name} without a queue", "name one, or leave it out")


def job(asked: JobRequest) -> QueuedJob:
    """The job itself. Raises UsageError."""
    if len(json.dumps(asked.runtime_env)) > SMALL:
        raise UsageError("runtime_env is larger than 1 MiB", "put files into the working directory")
    if asked.package and "working_dir" in asked.runtime_env:
        raise UsageError("a package and runtime_env.working_dir cannot be used together", "send one of them")
    if own := next((name for name in asked.metadata if name.startswith(RESERVED)), ""):
        raise UsageError(
            f"the request: metadata.{own}: only the controller writes {RESERVED}...", "leave it out"
        )
    check_startable(asked.command, asked.runtime_env)
    return QueuedJob(
        command=asked.command,
        runtime_env=asked.runtime_env,
        package=asked.package,
        metadata=asked.metadata,
        num_cpus=asked.num_cpus,
        num_gpus=asked.num_gpus,
        per_rank=_per_rank(asked.workers),
        owner=printable(asked.owner),
        recipe=printable(asked.recipe),
        ranks=asked.ranks,
        priority_class=asked.priority_class,
        grace=GRACE_SECONDS if asked.preemption_grace is None else asked.preemption_grace,
        enforce=asked.enforce,
        retry=None if asked.retry is None else RetryPolicy(**vars(asked.retry)),
    )


def _per_rank(workers: Workers | None) -> dict[str, Number]:
    """Request of one rank, as Ray counts it."""
    if workers is None:
        return {}
    amounts = {"CPU": workers.cpus, "GPU": workers.gpus, "memory": workers.memory}
    return {name: amount for name, amount in amounts.items() if amount}


def _pod_sets(asked: JobRequest, resource: str) -> tuple[PodSet, ...]:
    pod_sets, workers = [], asked.workers
    own = _requests(asked.num_cpus, asked.num_gpus, 0, resource)
    if own or workers is None:
        pod_sets.append(PodSet(DRIVER, 1, own))
    if workers is not None:
        if workers.min_count is not None and workers.min_count > workers.count:
            raise UsageError(f"workers.min_count: must be at most count, {workers.count}")
        wanted = _requests(workers.cpus, workers.gpus, workers.memory, resource)
        pod_sets.append(PodSet(WORKERS, workers.count, wanted, workers.min_count))
    return tuple(pod_sets)


def _requests(cpus: float, gpus: float, memory: int, resource: str) -> dict[str, int]:
    """Amounts as quotas count them: thousandths of cpu, bytes, and whole GPUs."""
    wanted = {"cpu": math.ceil(round(cpus * 1000, 3)), "memory": memory, resource: math.ceil(gpus)}
    return {name: amount for name, amount in sorted(wanted.items()) if amount}
