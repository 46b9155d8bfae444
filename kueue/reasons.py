"""Reasons as Kueue names them, and the forms of its messages."""

from __future__ import annotations

from kueue.model import FlavorResource
from kueue.quantity import shown

# Reasons of a workload that has no quota (condition QuotaReserved is False)
NO_MATCHING_FLAVOR = "NoMatchingFlavor"
WAITING_FOR_QUOTA = "WaitingForQuota"
EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
WAITING_FOR_PREEMPTED = "WaitingForPreemptedWorkloads"
MISCONFIGURED = "Misconfigured"
SUSPENDED = "Suspended"
NO_NODE = "NoNodeFits"
"""Kueue has none for it: it leaves nodes to the scheduler."""
WAITING_FOR_PODS_READY = "WaitingForPodsReady"

SEVERITY = {"": 0, WAITING_FOR_QUOTA: 2, EXCEEDS_MAX_QUOTA: 3, NO_MATCHING_FLAVOR: 4, NO_NODE: 5}
"""Rank of the reasons: the worst of several is shown."""

# Reasons of an eviction
PREEMPTED = "Preempted"
PODS_READY_TIMEOUT = "PodsReadyTimeout"
QUEUE_STOPPED = "ClusterQueueStopped"
LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
DEACTIVATED = "Deactivated"
NODE_FAILURES = "NodeFailures"

WAIT_FOR_RECOVERY = "WaitForRecovery"
"""Reason of PodsReady being false for pods that ran once."""

# Reasons of a preemption
IN_CLUSTER_QUEUE = "InClusterQueue"
RECLAMATION = "InCohortReclamation"
FAIR_SHARING = "InCohortFairSharing"
WHILE_BORROWING = "InCohortReclaimWhileBorrowing"

CAUSES = {
    IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    RECLAMATION: "reclamation within the cohort",
    FAIR_SHARING: "Fair Sharing within the cohort",
    WHILE_BORROWING: "reclamation within the cohort while borrowing",
}

# Reasons of a return to the queue
BACKOFF_FINISHED = "BackoffFinished"
REACTIVATED = "Reactivated"
QUEUE_RESTARTED = "ClusterQueueRestarted"
LOCAL_QUEUE_RESTARTED = "LocalQueueRestarted"

# Reasons of a deactivation
REQUEUING_LIMIT = "RequeuingLimitExceeded"
EXECUTION_TIME = "MaximumExecutionTimeExceeded"

NO_LONGER_FITS = "Workload no longer fits after processing another workload"
OVERLAPPING = "Workload has overlapping preemption targets with another workload"
OVERLAPPING_BUT_FITS = f"{OVERLAPPING}, but will fit after these preemptions complete"
PODS_NOT_READY = "waiting for all admitted workloads to be in PodsReady condition"
NAMESPACE_MISMATCH = "workload namespace doesn't match ClusterQueue selector"


def worse(a: str, b: str) -> str:
    """The more severe of two reasons."""
    return a if SEVERITY.get(a, 0) >= SEVERITY.get(b, 0) else b


def too_big(place: FlavorResource, before: int, value: int, most: int) -> str:
    """A request that no empty cluster could hold."""
    flavor, resource = place
    return (
        f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests "
        f"({shown(resource, before)}) + current podset request ({shown(resource, value)}) > maximum "
        f"capacity ({shown(resource, most)})"
    )


def no_node(resource: str, value: int, most: int) -> str:
    """A pod that is larger than every node."""
    return f"no node has {shown(resource, value)} of {resource}, the largest has {shown(resource, most)}"


def few_places(fit: int, count: int) -> str:
    """More pods than the nodes have places for."""
    return f"only {fit} of {count} pods fit on the nodes at once"


def short_of(place: FlavorResource, missing: int) -> str:
    """A request for which not enough is free now."""
    flavor, resource = place
    return (
        f"insufficient unused quota for {resource} in flavor {flavor}, {shown(resource, missing)} more needed"
    )


def preempted(uid: str, cause: str, preemptor: str, victim: str) -> str:
    """Message of a preempted workload, with the paths of both queues."""
    return (
        f"Preempted to accommodate a workload (UID: {uid}, JobUID: UNKNOWN) due to {CAUSES[cause]}; "
        f"preemptor path: {preemptor}; preemptee path: {victim}"
    )
