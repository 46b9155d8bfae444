"""Documents of ClusterQueues, LocalQueues and cohorts with quota and usage, as the controller answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.api.base import Number


@dataclass(frozen=True)
class FlavorUse:
    """Quota and usage of one flavor's resource; limits that are not set are null."""

    flavor: str
    resource: str
    nominal: Number
    quota: Number
    used: Number
    borrowed: Number
    available: Number
    borrowing_limit: Number | None
    lending_limit: Number | None


@dataclass(frozen=True)
class ClusterQueueView:
    """A ClusterQueue; a `weighted_share` of null is infinite."""

    name: str
    cohort: str
    strategy: str
    active: bool
    message: str
    stop: str
    pending: int
    admitted: int
    weight: Number
    weighted_share: int | None
    flavors: tuple[FlavorUse, ...]
    local_queues: tuple[str, ...]


@dataclass(frozen=True)
class LocalQueueView:
    """A LocalQueue; `used` is its usage over time, null where none is kept, and where it is infinite."""

    namespace: str
    name: str
    cluster_queue: str
    stop: str
    pending: int
    admitted: int
    used: Number | None


@dataclass(frozen=True)
class CohortView:
    """A cohort, with its quota and usage and that of all below it."""

    name: str
    parent: str
    weight: Number
    weighted_share: int | None
    flavors: tuple[FlavorUse, ...]


@dataclass(frozen=True)
class FlavorView:
    """A ResourceFlavor, and the labels of its nodes."""

    name: str
    node_labels: Mapping[str, str]


@dataclass(frozen=True)
class PriorityView:
    """A WorkloadPriorityClass or PriorityClass."""

    name: str
    value: int
    default: bool


@dataclass(frozen=True)
class Overcommitted:
    """A resource of which the quotas are more than the lab has."""

    resource: str
    quota: Number
    capacity: Number
    message: str
    hint: str


@dataclass(frozen=True)
class QueuesView:
    """`GET /queues`: every queue and cohort."""

    cluster_queues: tuple[ClusterQueueView, ...]
    local_queues: tuple[LocalQueueView, ...]
    cohorts: tuple[CohortView, ...]
    flavors: tuple[FlavorView, ...]
    priority_classes: tuple[PriorityView, ...]
    overcommitted: tuple[Overcommitted, ...] = ()
    away: Mapping[str, str] = field(default_factory=dict)
