"""Objects of Kueue as plain data: quotas, queues, cohorts, flavors, priorities and workloads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

NEVER = "Never"
NONE = "None"
HOLD = "Hold"
HOLD_AND_DRAIN = "HoldAndDrain"
STRICT_FIFO = "StrictFIFO"
BEST_EFFORT_FIFO = "BestEffortFIFO"
TRY_NEXT_FLAVOR = "TryNextFlavor"
MAY_STOP_SEARCH = "MayStopSearch"
LOWER_PRIORITY = "LowerPriority"
LOWER_OR_NEWER = "LowerOrNewerEqualPriority"
ANY = "Any"
FINAL_SHARE = "LessThanOrEqualToFinalShare"
INITIAL_SHARE = "LessThanInitialShare"
EVICTION = "Eviction"
CREATION = "Creation"
PODS = "pods"


class FlavorResource(NamedTuple):
    """A resource of one flavor: what a quota is given for. Amounts are whole units; of cpu, thousandths."""

    flavor: str
    resource: str


Usage = Mapping[FlavorResource, int]


@dataclass(frozen=True)
class Quota:
    """Nominal amount, and how much more may be borrowed or how much of it lent; None is no limit."""

    nominal: int = 0
    borrowing: int | None = None
    lending: int | None = None


@dataclass(frozen=True)
class FlavorQuotas:
    """One flavor of a resource group: resource -> quota."""

    name: str
    quotas: Mapping[str, Quota]


@dataclass(frozen=True)
class ResourceGroup:
    """Resources that always come from one flavor together, and the flavors in the order they are tried."""

    resources: tuple[str, ...]
    flavors: tuple[FlavorQuotas, ...]


@dataclass(frozen=True)
class PreemptionPolicy:
    """Policies of a ClusterQueue: whom its workloads may preempt. `threshold` is maxPriorityThreshold."""

    within: str = NEVER
    reclaim: str = NEVER
    borrow: str = NEVER
    threshold: int | None = None


@dataclass(frozen=True)
class Fungibility:
    """Rule for continuing the search after a flavor was found; `preference` is empty when not given."""

    when_can_borrow: str = MAY_STOP_SEARCH
    when_can_preempt: str = TRY_NEXT_FLAVOR
    preference: str = ""


@dataclass(frozen=True)
class Requirement:
    """One expression over labels: `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClusterQueue:
    """A pool of quota. `selector` is None where namespaceSelector is null, which matches no namespace."""

    name: str
    groups: tuple[ResourceGroup, ...] = ()
    cohort: str = ""
    strategy: str = BEST_EFFORT_FIFO
    selector: tuple[Requirement, ...] | None = ()
    fungibility: Fungibility = Fungibility()
    preemption: PreemptionPolicy = PreemptionPolicy()
    stop: str = NONE
    weight: float = 1.0
    usage_based: bool = False

    def group_of(self, resource: str) -> ResourceGroup | None:
        """The group that covers this resource."""
        return next((group for group in self.groups if resource in group.resources), None)


@dataclass(frozen=True)
class Cohort:
    """A group of queues that lend to each other; its own quota is extra for all below it."""

    name: str
    parent: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    weight: float = 1.0


@dataclass(frozen=True)
class LocalQueue:
    """A queue of a namespace, to which jobs are submitted; it leads to a ClusterQueue."""

    namespace: str
    name: str
    cluster_queue: str
    stop: str = NONE
    weight: float = 1.0


@dataclass(frozen=True)
class Taint:
    """A taint of a flavor's nodes."""

    key: str
    value: str = ""
    effect: str = ""

    def __str__(self) -> str:
        """Kueue's form of it in messages."""
        return f"{{{self.key} {self.value} {self.effect} <nil>}}"


@dataclass(frozen=True)
class Toleration:
    """A taint that is put up with; an empty key or effect stands for all."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True)
class ResourceFlavor:
    """A kind of node."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True)
class PriorityClass:
    """A named priority: a WorkloadPriorityClass, or a PriorityClass of pods where `pods` is set."""

    name: str
    value: int
    description: str = ""
    pods: bool = False
    default: bool = False


@dataclass(frozen=True)
class PodSet:
    """Pods of one shape. `requests` are of one pod; `affinity` holds terms of which one has to match."""

    name: str = "main"
    count: int = 1
    requests: Mapping[str, int] = field(default_factory=dict)
    min_count: int | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True)
class PodSetAdmission:
    """The share of one pod set: resource -> flavor, and the total of each resource."""

    name: str
    count: int
    flavors: Mapping[str, str]
    usage: Mapping[str, int]


@dataclass(frozen=True)
class Admission:
    """A reservation of quota in a ClusterQueue."""

    cluster_queue: str
    pod_sets: tuple[PodSetAdmission, ...]

    def usage(self) -> dict[FlavorResource, int]:
        """The sum over the pod sets."""
        total: dict[FlavorResource, int] = {}
        for pod_set in self.pod_sets:
            for resource, flavor in pod_set.flavors.items():
                place = FlavorResource(flavor, resource)
                total[place] = total.get(place, 0) + pod_set.usage.get(resource, 0)
        return total

    def flavors(self) -> dict[str, dict[str, str]]:
        """Pod set -> resource -> flavor."""
        return {pod_set.name: dict(pod_set.flavors) for pod_set in self.pod_sets}


@dataclass(frozen=True)
class Workload:
    """A job as the queues see it, with what its status already says. Times are seconds.

    `order` is the place among those without a creation time, counted from 1; they came before all others.
    """

    namespace: str
    name: str
    queue: str = ""
    pod_sets: tuple[PodSet, ...] = ()
    uid: str = ""
    created: float = 0.0
    order: int = 0
    priority: int = 0
    active: bool = True
    max_execution: float | None = None
    admission: Admission | None = None
    reserved_at: float | None = None
    admitted_at: float | None = None
    evicted: str = ""
    evicted_at: float | None = None
    finished: str = ""
    reason: str = ""
    message: str = ""
    """Reason and message of a workload that holds no quota."""
    requeues: int = 0
    requeue_at: float | None = None
    executed: float = 0.0
    ready: bool = False
    unready_since: float | None = None
    """Time at which its pods, which ran once, ceased to."""
    duration: float | None = None
    ready_after: float | None = 0.0

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class WaitForPodsReady:
    """Limits on how long an admitted workload may take until its pods run, in seconds.

    `recovery_timeout` is for pods that ran once: None is the same time again, 0 no limit, as in Kueue
    (pkg/controller/core/core.go: waitForPodsReady).
    """

    timeout: float = 1800.0
    recovery_timeout: float | None = None
    block_admission: bool = False
    timestamp: str = EVICTION
    backoff_base: float = 60.0
    backoff_max: float = 3600.0
    backoff_limit: int | None = None

    @property
    def recovery(self) -> float | None:
        """Seconds that a workload has until pods that ran once run again; None is no limit."""
        return self.timeout if self.recovery_timeout is None else self.recovery_timeout or None

    def backoff(self, requeues: int) -> float:
        """Seconds before the return after this many evictions."""
        return min(self.backoff_max, self.backoff_base * 2.0 ** min(requeues - 1, 60))


@dataclass(frozen=True)
class AdmissionFairSharing:
    """Order within a ClusterQueue by what each LocalQueue used, with a half-life."""

    half_life: float
    sampling: float = 300.0
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Config:
    """Settings of Kueue that decisions depend on; `strategies` is None without fairSharing.

    `keep_finished` are the seconds for which finished workloads are kept; None: no time says.
    """

    strategies: tuple[str, ...] | None = None
    pods_ready: WaitForPodsReady | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    ignore_undeclared: bool = False
    keep_finished: float | None = None


@dataclass(frozen=True)
class Setup:
    """All that decisions depend on but the workloads."""

    cluster_queues: Mapping[str, ClusterQueue] = field(default_factory=dict)
    cohorts: Mapping[str, Cohort] = field(default_factory=dict)
    local_queues: Mapping[tuple[str, str], LocalQueue] = field(default_factory=dict)
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    priority_classes: tuple[PriorityClass, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    config: Config = Config()
    lost: Usage = field(default_factory=dict)
    """Capacity that takes no work now, see kueue.capacity. No object says it."""
    nodes: tuple[Mapping[str, int], ...] = ()
    """Amounts of each node; pods that fit on none are not admitted. Empty: nobody says. No object does."""


def quotas(groups: tuple[ResourceGroup, ...]) -> Iterator[tuple[FlavorResource, Quota]]:
    """Every quota of these groups."""
    for group in groups:
        for flavor in group.flavors:
            for resource, quota in flavor.quotas.items():
                yield FlavorResource(flavor.name, resource), quota
