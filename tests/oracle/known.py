"""Decisions of Kueue that the lab does not share; docs/queues.md says why."""

from __future__ import annotations

from typing import Any

from tests.oracle.objects import API, GPU, Object

NEVER = {
    "withinClusterQueue": "Never",
    "reclaimWithinCohort": "Never",
    "borrowWithinCohort": {"policy": "Never"},
}


def queue(name: str, quotas: dict[str, Object], **spec: Any) -> list[Object]:
    """A ClusterQueue with these resources of one flavor, and a LocalQueue of its name."""
    resources = [{"name": resource, **quota} for resource, quota in quotas.items()]
    flavors = [{"name": "f", "resources": resources}]
    settings = {
        "resourceGroups": [{"coveredResources": list(quotas), "flavors": flavors}],
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        "preemption": NEVER,
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "stopPolicy": "None",
        **spec,
    }
    return [
        made("ClusterQueue", {"name": name}, settings),
        made("LocalQueue", {"name": name, "namespace": "ns"}, {"clusterQueue": name}),
    ]


def made(kind: str, metadata: Object, spec: Object) -> Object:
    """An object."""
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}


def pods(name: str, requests: dict[str, str]) -> Object:
    """A pod set of one pod."""
    container = {"name": "c", "resources": {"requests": requests}}
    return {"name": name, "count": 1, "template": {"spec": {"containers": [container]}}}


def workload(
    name: str, door: str, *sets: Object, priority: int = 0, holds: dict[str, str] | None = None
) -> Object:
    """A workload that waits, or whose first pod set holds this in the ClusterQueue of that name."""
    created = f"2026-11-02T10:00:0{name[-1]}Z"
    metadata = {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": created}
    spec = {"queueName": door, "priority": priority, "active": True, "podSets": list(sets)}
    one = made("Workload", metadata, spec)
    if holds is not None:
        flavors = dict.fromkeys(holds, "f")
        assigned = [{"name": "main", "count": 1, "flavors": flavors, "resourceUsage": holds}]
        since = {"status": "True", "lastTransitionTime": "2026-11-02T11:00:00Z", "reason": "R", "message": ""}
        one["status"] = {
            "admission": {"clusterQueue": door, "podSetAssignments": assigned},
            "conditions": [{"type": kind, **since} for kind in ("QuotaReserved", "Admitted")],
        }
    return one


def scenario(*objects: Object) -> list[Object]:
    """These, and what all need."""
    return [
        {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}},
        made("ResourceFlavor", {"name": "f"}, {}),
        *objects,
    ]


FOUR = {"nominalQuota": "4"}

LOWER = {**NEVER, "withinClusterQueue": "LowerPriority"}

KNOWN = {
    "pods are forgotten when victims are looked for": scenario(
        *queue("q", {GPU: FOUR, "pods": {"nominalQuota": "2"}}, preemption=LOWER),
        workload("w1", "q", pods("main", {GPU: "4"}), holds={GPU: "4", "pods": "1"}),
        workload("w2", "q", pods("main", {}), holds={"pods": "1"}),
        workload("w3", "q", pods("main", {GPU: "1"}), pods("more", {GPU: "1"}), priority=1),
    ),
    "pods that ask for nothing of a quota end the search": scenario(
        *queue("q", {GPU: FOUR}),
        workload("w1", "q", pods("main", {"example.com/fpga": "0"}), pods("more", {GPU: "1"})),
    ),
    "a queue without quota takes nobody who asks for none": scenario(
        *queue("q", {}, resourceGroups=[]),
        workload("w1", "q", pods("main", {})),
    ),
}
"""What Kueue does -> a scenario in which it does."""
