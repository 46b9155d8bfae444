"""A workload inside the engine: its specification, and what was decided about it so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kueue.model import EVICTION, Admission, Config, FlavorResource, PodSet, Workload
from kueue.reasons import PODS_READY_TIMEOUT

PENDING = "Pending"
ADMITTED = "Admitted"
FINISHED = "Finished"
INACTIVE = "Deactivated"


@dataclass(frozen=True)
class Tried:
    """Memory of the last search for flavors: per pod set, resource -> place of the last flavor tried.

    A place of -1 says that all were tried.
    """

    places: tuple[dict[str, int], ...]
    generation: int
    cycle: int

    @property
    def pending(self) -> bool:
        """Tell if flavors are left to try."""
        return any(place != -1 for tried in self.places for place in tried.values())

    def first(self, pod_set: int, resource: str) -> int:
        """Place of the flavor to begin with."""
        return self.places[pod_set].get(resource, -1) + 1 if pod_set < len(self.places) else 0


class Item:
    """Mutable state of one workload. Its key, UID and shape never change."""

    def __init__(self, workload: Workload) -> None:
        """Take over what the workload's status says."""
        self.workload = workload
        self.key = workload.key
        self.uid = workload.uid or workload.name
        self.priority = workload.priority
        self.queue = (workload.namespace, workload.queue)
        self.cluster_queue = ""
        self.state = PENDING
        self.reason, self.message = workload.reason, workload.message
        self.admission: Admission | None = None
        self.usage: dict[FlavorResource, int] = {}
        self.reserved_at: float | None = None
        self.admitted_at: float | None = None
        self.evicted = workload.evicted
        self.evicted_at = workload.evicted_at
        self.requeues = workload.requeues
        self.requeue_at = workload.requeue_at
        self.executed = workload.executed
        self.active = workload.active
        self.ready = workload.ready
        self.unready_since = workload.unready_since
        self.tried: Tried | None = None
        self.ticket = 0
        self.queued = False
        self.shape = shape(workload)

    @property
    def unmanaged(self) -> bool:
        """True for a workload that names no queue: a live engine lets it run, and counts it nowhere."""
        return not self.queue[1] and self.admission is None

    def queue_time(self, config: Config) -> tuple[float, int]:
        """The time that counts for the order in a queue, and the order of those without one."""
        waits = config.pods_ready
        late = self.evicted == PODS_READY_TIMEOUT and (waits is None or waits.timestamp == EVICTION)
        if late and self.evicted_at is not None:
            return self.evicted_at, 0
        return self.workload.created, self.workload.order

    def since(self, now: float) -> float:
        """The time of its admission; `now` where none is known."""
        return now if self.admitted_at is None else self.admitted_at

    def reserve(self, admission: Admission, at: float | None) -> None:
        """Hold quota from now on."""
        self.admission, self.usage = admission, admission.usage()
        self.cluster_queue = admission.cluster_queue
        self.reserved_at = self.admitted_at = at
        self.state, self.reason, self.message = ADMITTED, "", ""
        self.evicted, self.evicted_at, self.requeue_at = "", None, None
        self.tried = None

    def release(self) -> None:
        """Hold nothing any more."""
        self.admission, self.usage = None, {}
        self.reserved_at = self.admitted_at = None
        self.ready = False
        self.unready_since = None


def requests(pod_sets: Sequence[PodSet], counts: Sequence[int] | None = None) -> list[dict[str, int]]:
    """The total of each pod set, with these counts instead of the full ones."""
    whole = [pod_set.count for pod_set in pod_sets] if counts is None else counts
    return [
        {resource: max(0, value) * count for resource, value in pod_set.requests.items()}
        for pod_set, count in zip(pod_sets, whole, strict=True)
    ]


def shape(workload: Workload) -> Any:
    """All that two workloads must have in common for the same answer at the same moment."""
    return (
        workload.priority,
        tuple(
            (
                pod_set.name,
                pod_set.count,
                pod_set.min_count,
                tuple(sorted(pod_set.requests.items())),
                tuple(sorted(pod_set.node_selector.items())),
                pod_set.affinity,
                pod_set.tolerations,
            )
            for pod_set in workload.pod_sets
        ),
    )
