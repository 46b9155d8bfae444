"""Quotas, queues and workloads as Kueue's YAML in v1beta2."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from kueue.model import (
    NEVER,
    NONE,
    ClusterQueue,
    Cohort,
    Config,
    LocalQueue,
    PodSet,
    PriorityClass,
    Quota,
    Requirement,
    ResourceFlavor,
    ResourceGroup,
    Setup,
    Workload,
)
from kueue.quantity import shown
from kueue.reasons import WAIT_FOR_RECOVERY

VERSION = "kueue.x-k8s.io/v1beta2"

Object = dict[str, Any]
"""An object as Kueue's YAML has it, whose fields are Kueue's."""

Key = tuple[str, str, str]
"""Kind, namespace and name; the Configuration has no name."""


def key_of(document: Mapping[str, Any]) -> Key:
    """The key of an object."""
    meta = document.get("metadata", {})
    return document["kind"], meta.get("namespace", ""), meta.get("name", "")


def as_yaml(objects: Iterable[Object]) -> str:
    """One YAML text of several documents."""
    import yaml

    return "---\n".join(yaml.safe_dump(item, sort_keys=False, width=100) for item in objects)


def objects(setup: Setup, workloads: Iterable[Workload] = ()) -> Iterator[Object]:
    """All of it, what others refer to first."""
    if setup.config != Config():
        yield _config(setup.config)
    for name, labels in setup.namespaces.items():
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": _filled(name=name, labels=dict(labels))}
    for flavor in setup.flavors.values():
        yield _object("ResourceFlavor", flavor.name, _flavor(flavor))
    for priority in setup.priority_classes:
        yield _priority(priority)
    for cohort in setup.cohorts.values():
        yield _object("Cohort", cohort.name, _cohort(cohort))
    for queue in setup.cluster_queues.values():
        yield _object("ClusterQueue", queue.name, _queue(queue))
    for local in setup.local_queues.values():
        yield _object("LocalQueue", local.name, _local_queue(local), namespace=local.namespace)
    for workload in workloads:
        yield workload_object(workload)


def _object(kind: str, name: str, spec: Object, **metadata: Any) -> Object:
    manifest: Object = {"apiVersion": VERSION, "kind": kind, "metadata": _filled(name=name, **metadata)}
    return {**manifest, "spec": spec} if spec or kind == "Cohort" else manifest


def _filled(**fields: Any) -> Object:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value not in (None, "", {}, [], ())}


def _fair(weight: float) -> Object | None:
    if weight == 1.0:
        return None
    return {"weight": str(int(weight)) if weight == int(weight) else f"{weight:.10f}".rstrip("0")}


# Quotas


def _queue(queue: ClusterQueue) -> Object:
    policy, fungibility = queue.preemption, queue.fungibility
    borrow = _filled(policy=policy.borrow, maxPriorityThreshold=policy.threshold)
    spec = _filled(
        cohortName=queue.cohort,
        queueingStrategy=queue.strategy,
        resourceGroups=_groups(queue.groups),
        flavorFungibility=_filled(
            whenCanBorrow=fungibility.when_can_borrow,
            whenCanPreempt=fungibility.when_can_preempt,
            preference=fungibility.preference,
        ),
        preemption=_filled(
            withinClusterQueue=policy.within,
            reclaimWithinCohort=policy.reclaim,
            borrowWithinCohort=borrow if policy.borrow != NEVER else {},
        ),
        stopPolicy=queue.stop if queue.stop != NONE else None,
        fairSharing=_fair(queue.weight),
        admissionScope={"admissionMode": "UsageBasedAdmissionFairSharing"} if queue.usage_based else None,
    )
    if queue.selector is not None:
        spec["namespaceSelector"] = _filled(matchExpressions=_requirements(queue.selector))
    return spec


def _cohort(cohort: Cohort) -> Object:
    return _filled(
        parentName=cohort.parent, resourceGroups=_groups(cohort.groups), fairSharing=_fair(cohort.weight)
    )


def _local_queue(queue: LocalQueue) -> Object:
    stop = queue.stop if queue.stop != NONE else None
    return _filled(clusterQueue=queue.cluster_queue, stopPolicy=stop, fairSharing=_fair(queue.weight))


def _groups(groups: Sequence[ResourceGroup]) -> list[Object]:
    return [
        {
            "coveredResources": list(group.resources),
            "flavors": [
                {
                    "name": flavor.name,
                    "resources": [_quota(name, quota) for name, quota in flavor.quotas.items()],
                }
                for flavor in group.flavors
            ],
        }
        for group in groups
    ]


def _quota(resource: str, quota: Quota) -> Object:
    limits = {"borrowingLimit": quota.borrowing, "lendingLimit": quota.lending}
    return {
        "name": resource,
        "nominalQuota": shown(resource, quota.nominal),
        **{name: shown(resource, value) for name, value in limits.items() if value is not None},
    }


def _flavor(flavor: ResourceFlavor) -> Object:
    taints = [_filled(key=taint.key, value=taint.value, effect=taint.effect) for taint in flavor.taints]
    return _filled(nodeLabels=dict(flavor.labels), nodeTaints=taints, tolerations=_tolerations(flavor))


def _tolerations(owner: ResourceFlavor | PodSet) -> list[Object]:
    return [
        _filled(
            key=toleration.key, operator=toleration.operator, value=toleration.value, effect=toleration.effect
        )
        for toleration in owner.tolerations
    ]


def _requirements(requirements: Sequence[Requirement]) -> list[Object]:
    return [
        _filled(key=requirement.key, operator=requirement.operator, values=list(requirement.values))
        for requirement in requirements
    ]


def _priority(priority: PriorityClass) -> Object:
    kind = "PriorityClass" if priority.pods else "WorkloadPriorityClass"
    manifest: Object = {
        "apiVersion": "scheduling.k8s.io/v1" if priority.pods else VERSION,
        "kind": kind,
        "metadata": {"name": priority.name},
        "value": priority.value,
    }
    if priority.pods and priority.default:
        manifest["globalDefault"] = True
    return {**manifest, **_filled(description=priority.description)}


def _config(config: Config) -> Object:
    waits, fair = config.pods_ready, config.admission_fair_sharing
    requeuing = waits and _filled(
        timestamp=waits.timestamp,
        backoffBaseSeconds=int(waits.backoff_base),
        backoffMaxSeconds=int(waits.backoff_max),
        backoffLimitCount=waits.backoff_limit,
    )
    return {
        "apiVersion": f"config.{VERSION}",
        "kind": "Configuration",
        **_filled(
            fairSharing={"preemptionStrategies": list(config.strategies)} if config.strategies else None,
            waitForPodsReady=waits
            and _filled(
                timeout=_seconds(waits.timeout),
                recoveryTimeout=None if waits.recovery_timeout is None else _seconds(waits.recovery_timeout),
                blockAdmission=waits.block_admission,
                requeuingStrategy=requeuing,
            ),
            admissionFairSharing=fair
            and _filled(
                usageHalfLifeTime=_seconds(fair.half_life),
                usageSamplingInterval=_seconds(fair.sampling),
                resourceWeights=dict(fair.weights),
            ),
            resources={"quotaCheckStrategy": "IgnoreUndeclared"} if config.ignore_undeclared else None,
            objectRetentionPolicies=None
            if config.keep_finished is None
            else {"workloads": {"afterFinished": _seconds(config.keep_finished)}},
        ),
    }


# Workloads


def workload_object(workload: Workload) -> Object:
    """A Workload with its status."""
    ready = workload.ready_after
    after = None if ready == 0 else "never" if ready is None else _seconds(ready)
    annotations = _filled(
        **{
            "raylab.io/duration": None if workload.duration is None else _seconds(workload.duration),
            "raylab.io/ready-after": after,
        }
    )
    limit = workload.max_execution
    spec = {
        "queueName": workload.queue,
        "priority": workload.priority,
        "active": workload.active,
        **({} if limit is None else {"maximumExecutionTimeSeconds": int(limit)}),
        "podSets": [_pod_set(pod_set) for pod_set in workload.pod_sets],
    }
    created = None if workload.order else _time(workload.created)
    metadata = {
        "namespace": workload.namespace,
        "uid": workload.uid,
        "creationTimestamp": created,
        "annotations": annotations,
    }
    manifest = _object("Workload", workload.name, spec, **metadata)
    status = _status(workload)
    return {**manifest, "status": status} if status else manifest


def _pod_set(pod_set: PodSet) -> Object:
    requests = {name: shown(name, value) for name, value in pod_set.requests.items()}
    terms = [{"matchExpressions": _requirements(term)} for term in pod_set.affinity]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = {
        "containers": [{"name": "main", "resources": {"requests": requests}}],
        **_filled(
            nodeSelector=dict(pod_set.node_selector),
            affinity={"nodeAffinity": required} if terms else None,
            tolerations=_tolerations(pod_set),
        ),
    }
    least = {} if pod_set.min_count is None else {"minCount": pod_set.min_count}
    return {"name": pod_set.name, "count": pod_set.count, **least, "template": {"spec": spec}}


def _status(workload: Workload) -> Object:
    conditions = [_condition(*condition) for condition in _conditions(workload)]
    at = workload.requeue_at
    return _filled(
        conditions=conditions,
        admission=None if workload.admission is None else _admission(workload),
        requeueState=_filled(count=workload.requeues or None, requeueAt=None if at is None else _time(at)),
        accumulatedPastExecutionTimeSeconds=int(workload.executed) or None,
    )


def _conditions(workload: Workload) -> Iterator[tuple[str, bool, str, float | None, str]]:
    """Type, status, reason, time and message of the conditions that are worth telling."""
    why = workload.reason, None, workload.message
    if workload.admission is not None:
        yield "QuotaReserved", True, "QuotaReserved", workload.reserved_at, ""
    elif workload.reason and not workload.finished:
        yield "QuotaReserved", False, *why
    if workload.admitted_at is not None:
        yield "Admitted", True, "Admitted", workload.admitted_at, ""
    if workload.evicted:
        going = workload.message if workload.admission is not None else ""
        yield "Evicted", True, workload.evicted, workload.evicted_at, going
    if workload.ready:
        yield "PodsReady", True, "Started", None, ""
    elif workload.unready_since is not None:
        yield "PodsReady", False, WAIT_FOR_RECOVERY, workload.unready_since, ""
    if workload.finished:
        yield "Finished", True, workload.finished, None, workload.message


def _condition(kind: str, holds: bool, reason: str, at: float | None, message: str) -> Object:
    return _filled(
        type=kind,
        status=str(holds),
        reason=reason,
        message=message,
        lastTransitionTime=None if at is None else _time(at),
    )


def _admission(workload: Workload) -> Object:
    assert workload.admission is not None
    assignments = [
        {
            "name": pod_set.name,
            "flavors": dict(pod_set.flavors),
            "resourceUsage": {name: shown(name, value) for name, value in pod_set.usage.items()},
            "count": pod_set.count,
        }
        for pod_set in workload.admission.pod_sets
    ]
    return {"clusterQueue": workload.admission.cluster_queue, "podSetAssignments": assignments}


def _time(seconds: float) -> str:
    when = datetime.fromtimestamp(seconds, timezone.utc)
    return when.strftime("%Y-%m-%dT%H:%M:%S") + (f".{when.microsecond:06}" if when.microsecond else "") + "Z"


def _seconds(seconds: float) -> str:
    return f"{f'{seconds:.9f}'.rstrip('0').rstrip('.')}s"


def natural(usage: Mapping[Any, int]) -> dict[str, dict[str, float | int]]:
    """Usage as flavor -> resource -> amount; of cpu, whole cores."""
    amounts: dict[str, dict[str, float | int]] = {}
    for (flavor, resource), value in sorted(usage.items()):
        amounts.setdefault(flavor, {})[resource] = value / 1000 if resource == "cpu" else value
    return amounts
