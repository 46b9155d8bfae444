"""Resources that a job takes, beside what it asked for."""

from __future__ import annotations

from collections.abc import Mapping

from kueue.item import Item
from kueue.model import Setup
from lab.daemons.queue.effects import granted_of
from lab.daemons.queue.model import QueuedJob

SLACK = 1e-3
"""Amount below which a difference is one of rounding."""


def asked(job: QueuedJob, item: Item) -> dict[str, float]:
    """Resource as Ray calls it -> amount that the job asks for, with the ranks that it was granted."""
    count = granted_of(item) or 0
    own = {"CPU": job.num_cpus, "GPU": job.num_gpus, "memory": 0.0}
    return {name: amount + count * job.per_rank.get(name, 0.0) for name, amount in own.items()}


def covers(taken: Mapping[str, float], job: QueuedJob, item: Item) -> bool:
    """Tell if a job has the GPUs that it asked for, else the CPUs; one that asks for neither has all."""
    wanted = asked(job, item)
    resource = "GPU" if wanted["GPU"] else "CPU"
    return taken.get(resource, 0.0) >= wanted[resource] - SLACK


def exceeded(
    taken: Mapping[str, float], job: QueuedJob, item: Item, setup: Setup, resource: str
) -> dict[str, float]:
    """Resource -> amount taken, of those that its ClusterQueue gives out and it takes more of than it asked.

    `resource` is what quotas call a GPU.
    """
    queue = setup.cluster_queues.get(item.cluster_queue)
    if queue is None:  # a job past the queues
        return {}
    names = {"CPU": "cpu", "GPU": resource, "memory": "memory"}
    wanted = asked(job, item)
    return {
        ray: round(taken[ray], 4)
        for ray, name in names.items()
        if queue.group_of(name) is not None and taken.get(ray, 0.0) > wanted[ray] + SLACK
    }
