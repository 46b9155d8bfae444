"""Readers of Workloads: pods and what they ask for, and what the status says about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kueue import reasons
from kueue.model import PODS, Admission, PodSet, PodSetAdmission, Requirement, Workload
from kueue.reading.nodes import At, Spot, meant
from kueue.reading.quotas import CHECKS, KNOWN, TOPOLOGY, requirements, resource_name, tolerations

PREFIX = "raylab.io/"
DURATION = f"{PREFIX}duration"
READY_AFTER = f"{PREFIX}ready-after"
ANNOTATIONS = (DURATION, READY_AFTER)
FORMER = f"{PREFIX}protected"
"""What earlier versions wrote at some workloads; it means nothing any more."""

POD = (
    *(
        "activeDeadlineSeconds",
        "automountServiceAccountToken",
        "dnsConfig",
        "dnsPolicy",
        "enableServiceLinks",
    ),
    *("ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork", "hostPID", "hostUsers", "hostname"),
    *("imagePullSecrets", "nodeName", "os", "preemptionPolicy", "priority", "priorityClassName"),
    *("readinessGates", "restartPolicy", "runtimeClassName", "schedulerName", "securityContext"),
    *("serviceAccount", "serviceAccountName", "setHostnameAsFQDN", "shareProcessNamespace", "subdomain"),
    *("terminationGracePeriodSeconds", "topologySpreadConstraints", "volumes", "hostnameOverride"),
)
"""Fields of a pod that no quota depends on."""

CONTAINER = (
    *("args", "command", "env", "envFrom", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "name"),
    *("ports", "readinessProbe", "securityContext", "startupProbe", "stdin", "stdinOnce", "tty"),
    *("terminationMessagePath", "terminationMessagePolicy", "volumeDevices", "volumeMounts", "workingDir"),
    *("resizePolicy", "restartPolicyRules"),
)
"""The same of a container."""

SCHEDULING = "scheduling.k8s.io"


@dataclass(frozen=True)
class PriorityRef:
    """A priority class that a workload names; `pods` says that it is one of pods."""

    at: Spot
    name: str
    pods: bool


@dataclass(frozen=True)
class Drafted:
    """A workload as read, before its priority is looked up and its creation time is known to be missing."""

    at: Spot
    workload: Workload
    created: bool
    priority: bool
    ref: PriorityRef | None


def workload(namespace: str, name: str, at: At, meta: Mapping[str, At], old: bool) -> Drafted:
    """A Workload; `old` is v1beta1."""
    given = at.fields(("spec", "status"), required=("spec",), passed=("apiVersion", "kind", "metadata"))
    names = ("podSets", "queueName", "priority", "active", "maximumExecutionTimeSeconds")
    named = ("priorityClassName", "priorityClassSource") if old else ("priorityClassRef",)
    refused = {"preemptionGates": "preemption gates are alpha in Kueue"}
    spec = (
        given["spec"].fields((*names, *named), required=("podSets",), refused=refused)
        if "spec" in given
        else {}
    )
    pod_sets = tuple(_pod_set(item) for item in spec["podSets"].items(1, 18)) if "podSets" in spec else ()
    _check_pod_sets(spec, pod_sets)
    drafted = Workload(
        namespace,
        name,
        spec["queueName"].optional_name() if "queueName" in spec else "default",
        pod_sets,
        uid=meta["uid"].text() if "uid" in meta else "",
        created=meta["creationTimestamp"].time() if "creationTimestamp" in meta else 0.0,
        priority=spec["priority"].integer() if "priority" in spec else 0,
        active=spec["active"].boolean() if "active" in spec else True,
    )
    if "maximumExecutionTimeSeconds" in spec:
        limit = float(spec["maximumExecutionTimeSeconds"].integer(1))
        drafted = replace(drafted, max_execution=limit)
    if "annotations" in meta:
        drafted = _annotated(drafted, meta["annotations"])
    if "status" in given:
        drafted = _status(drafted, given["status"], old)
    return Drafted(at.spot(), drafted, "creationTimestamp" in meta, "priority" in spec, _ref(spec))


def _check_pod_sets(spec: Mapping[str, At], pod_sets: tuple[PodSet, ...]) -> None:
    names = [pod_set.name for pod_set in pod_sets]
    for name in sorted({repeated for repeated in names if names.count(repeated) > 1}):
        spec["podSets"].wrong(f"two pod sets are called {name}")
    if sum(pod_set.min_count is not None for pod_set in pod_sets) > 1:
        spec["podSets"].wrong("at most one podSet can use minCount")


def _ref(spec: Mapping[str, At]) -> PriorityRef | None:
    if "priorityClassRef" in spec:
        given = spec["priorityClassRef"].fields(("group", "kind", "name"), required=("group", "kind", "name"))
        kind = given["kind"].choice(("WorkloadPriorityClass", "PriorityClass")) if "kind" in given else ""
        if "group" in given:
            wanted = SCHEDULING if kind == "PriorityClass" else "kueue.x-k8s.io"
            given["group"].choice((wanted,))
        if "name" in given:
            return PriorityRef(given["name"].spot(), given["name"].name(), kind == "PriorityClass")
        return None
    if "priorityClassName" not in spec:
        return None
    at, pods = spec["priorityClassName"], False
    if "priorityClassSource" in spec and spec["priorityClassSource"].node.value:
        sources = ("kueue.x-k8s.io/workloadpriorityclass", f"{SCHEDULING}/priorityclass")
        pods = spec["priorityClassSource"].choice(sources) == sources[1]
    return PriorityRef(at.spot(), at.name(), pods)


def _annotated(drafted: Workload, at: At) -> Workload:
    for name, value in at.mapping().items():
        if name == DURATION:
            drafted = replace(drafted, duration=value.duration())
        elif name == READY_AFTER:
            after = None if value.node.value == "never" else value.duration()
            drafted = replace(drafted, ready_after=after)
        elif name.startswith(PREFIX) and name != FORMER:
            value.wrong("unknown annotation of the lab", meant(name, ANNOTATIONS))
    return drafted


# Pods


def _pod_set(at: At) -> PodSet:
    given = at.fields(("name", "count", "minCount", "template"), refused={"topologyRequest": TOPOLOGY})
    count = given["count"].integer(0) if "count" in given else 1
    least = given["minCount"].integer(1) if "minCount" in given else None
    if least is not None and least > count:
        given["minCount"].wrong(f"must be at most count, {count}")
        least = count
    name = given["name"].name() if "name" in given else "main"
    pod_set = PodSet(name, count, min_count=least)
    template = given["template"].fields(("spec",), passed=("metadata",)) if "template" in given else {}
    if "spec" not in template:
        return pod_set
    pod = template["spec"].fields(
        ("containers", "initContainers", "overhead", "resources", "nodeSelector", "affinity", "tolerations"),
        refused={"resourceClaims": "the lab knows no dynamic resource allocation"},
        passed=POD,
    )
    return replace(
        pod_set,
        requests=_pod_requests(pod),
        node_selector=pod["nodeSelector"].texts() if "nodeSelector" in pod else {},
        affinity=_affinity(pod["affinity"]) if "affinity" in pod else (),
        tolerations=tolerations(pod.get("tolerations")),
    )


def _pod_requests(pod: Mapping[str, At]) -> dict[str, int]:
    """Requests of one pod: containers together, or an init container where that is more; and overhead."""
    total: dict[str, int] = {}
    for at in pod["containers"].items() if "containers" in pod else ():
        requests, _ = _container(at)
        _add(total, requests)
    beside: dict[str, int] = {}  # init containers that stay, as sidecars
    most: dict[str, int] = {}
    for at in pod["initContainers"].items() if "initContainers" in pod else ():
        requests, stays = _container(at)
        if stays:
            _add(beside, requests)
            _add(total, requests)
            requests = {}
        now = dict(beside)
        _add(now, requests)
        most = {name: max(most.get(name, 0), now.get(name, 0)) for name in {*most, *now}}
    total = {name: max(total.get(name, 0), most.get(name, 0)) for name in {*total, *most}}
    if "resources" in pod:
        total |= _resources(pod["resources"])
    if "overhead" in pod:
        _add(total, _amounts(pod["overhead"]))
    return dict(sorted(total.items()))


def _container(at: At) -> tuple[dict[str, int], bool]:
    given = at.fields(("resources", "restartPolicy"), passed=CONTAINER)
    stays = "restartPolicy" in given and given["restartPolicy"].text() == "Always"
    return (_resources(given["resources"]) if "resources" in given else {}), stays


def _resources(at: At) -> dict[str, int]:
    """Requests; what only has a limit requests as much."""
    given = at.fields(("requests", "limits"), refused={"claims": "the lab knows no resource claims"})
    limits = _amounts(given["limits"]) if "limits" in given else {}
    return limits | (_amounts(given["requests"]) if "requests" in given else {})


def _amounts(at: At) -> dict[str, int]:
    quantities = {}
    for name, value in at.mapping().items():
        if name == PODS:
            value.wrong("the key is reserved: pods are counted by themselves")
            continue
        if name not in KNOWN:
            resource_name(_key(value, name))
        quantities[name] = value.amount(name)
    return quantities


def _key(value: At, name: str) -> At:
    """The key of a value, as a value of its own."""
    import yaml

    mark = value.node.start_mark
    return At(yaml.ScalarNode("tag:yaml.org,2002:str", name, mark), value.file, value.path, value.problems)


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _affinity(at: At) -> tuple[tuple[Requirement, ...], ...]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    given = at.fields(("nodeAffinity",), passed=("podAffinity", "podAntiAffinity"))
    if "nodeAffinity" not in given:
        return ()
    node = given["nodeAffinity"].fields(
        (required,), passed=("preferredDuringSchedulingIgnoredDuringExecution",)
    )
    if required not in node:
        return ()
    terms = node[required].fields(("nodeSelectorTerms",), required=("nodeSelectorTerms",))
    alternatives = []
    for term in terms["nodeSelectorTerms"].items(1) if "nodeSelectorTerms" in terms else ():
        one = term.fields(("matchExpressions",), passed=("matchFields",))
        operators = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
        items = one["matchExpressions"].items() if "matchExpressions" in one else []
        alternatives.append(tuple(requirements(items, operators)))
    return tuple(alternatives)


# Status


def _status(drafted: Workload, at: At, old: bool) -> Workload:
    past = "accumulatedPastExexcutionTimeSeconds" if old else "accumulatedPastExecutionTimeSeconds"
    given = at.fields(
        ("conditions", "admission", "requeueState", past),
        refused={
            "admissionChecks": CHECKS,
            "clusterName": "the lab is one cluster",
            "nominatedClusterNames": "the lab is one cluster",
            "reclaimablePods": "pods that end early give nothing back before the workload ends",
            "unhealthyNodes": TOPOLOGY,
            "preemptionGates": "preemption gates are alpha in Kueue",
        },
        passed=("resourceRequests", "schedulingStats"),
    )
    if past in given:
        drafted = replace(drafted, executed=float(given[past].integer(0)))
    if "requeueState" in given:
        state = given["requeueState"].fields(("count", "requeueAt"))
        drafted = replace(
            drafted,
            requeues=state["count"].integer(0) if "count" in state else 0,
            requeue_at=state["requeueAt"].time() if "requeueAt" in state else None,
        )
    admission = _admission(drafted, given["admission"]) if "admission" in given else None
    drafted = replace(drafted, admission=admission)
    reserves, going = admission is not None, ""
    for condition in given["conditions"].items() if "conditions" in given else ():
        one = condition.fields(
            ("type", "status", "lastTransitionTime", "reason", "message"),
            required=("type", "status"),
            passed=("observedGeneration",),
        )
        if "type" not in one or "status" not in one:
            continue
        kind, holds = one["type"].text(), one["status"].choice(("True", "False", "Unknown")) == "True"
        when = one["lastTransitionTime"].time() if "lastTransitionTime" in one else None
        reason = one["reason"].text() if "reason" in one else ""
        message = one["message"].text() if "message" in one else ""
        if kind == "QuotaReserved":
            reserves = holds
            drafted = replace(drafted, reserved_at=when if holds else None)
            if not holds:
                drafted = replace(drafted, reason=reason, message=message)
            if holds and admission is None:
                at.wrong("admission must be set while the QuotaReserved condition is true")
        elif kind == "Admitted" and holds:
            drafted = replace(drafted, admitted_at=when)
        elif kind == "Evicted" and holds:
            drafted = replace(drafted, evicted=reason or reasons.PREEMPTED, evicted_at=when)
            going = message
        elif kind == "PodsReady":
            lost = not holds and reason == reasons.WAIT_FOR_RECOVERY
            drafted = replace(drafted, ready=holds, unready_since=when if lost else None)
        elif kind == "Finished" and holds:
            drafted = replace(drafted, finished=reason or "Succeeded", message=message)
    if not reserves:
        return replace(drafted, admission=None)
    return replace(drafted, message=going) if drafted.evicted else drafted


def _assigned(at: At, count: int) -> dict[str, int]:
    """The total of each resource, which is one amount for each of so many pods."""
    usage = {}
    for name, value in at.mapping().items():
        usage[name] = value.amount(name)
        if count and usage[name] % count:
            value.wrong(f"is not a multiple of {count}, the number of pods")
    return usage


def _admission(drafted: Workload, at: At) -> Admission:
    needed = ("clusterQueue", "podSetAssignments")
    given = at.fields(needed, required=needed)
    wanted = {pod_set.name: pod_set for pod_set in drafted.pod_sets}
    assignments: list[PodSetAdmission] = []
    for item in given["podSetAssignments"].items(1) if "podSetAssignments" in given else ():
        one = item.fields(
            ("name", "flavors", "resourceUsage", "count"),
            refused={"topologyAssignment": TOPOLOGY, "delayedTopologyRequest": TOPOLOGY},
        )
        name = one["name"].name() if "name" in one else "main"
        pod_set = wanted.get(name)
        if pod_set is None:
            one.get("name", item).wrong(f"no pod set is called {name}", meant(name, list(wanted)))
            continue
        if any(name == known.name for known in assignments):
            one.get("name", item).wrong(f"a second assignment of pod set {name}")
            continue
        count = one["count"].integer(0) if "count" in one else pod_set.count
        flavors = one["flavors"].texts() if "flavors" in one else {}
        if "resourceUsage" in one:
            usage = _assigned(one["resourceUsage"], count)
        else:
            usage = {key: value * count for key, value in pod_set.requests.items()}
        if PODS in flavors:
            usage.setdefault(PODS, count)
        assignments.append(PodSetAdmission(name, count, flavors, usage))
    missing = [name for name in wanted if all(name != assignment.name for assignment in assignments)]
    if assignments and missing:
        given["podSetAssignments"].wrong(f"pod set {', '.join(missing)} has no assignment")
    queue = given["clusterQueue"].name() if "clusterQueue" in given else ""
    return Admission(queue, tuple(assignments))
