"""Quotas against what jobs ask for: the lab's queues decide, as Kueue would, on a cluster that is empty."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kueue.item import PENDING
from kueue.model import ResourceFlavor, Setup, Workload
from kueue.plainly import UNCOVERED
from kueue.reading import DEFAULT_NAMESPACE, Read, read_objects
from kueue.reading.nodes import Problems, documents, meant
from kueue.simulate import simulate
from kueue.writing import VERSION
from lab.ext.kubernetes.clusters import JOB_AT, RayCluster, clusters, inside, whole
from lab.ext.kubernetes.manifests import (
    APP_WRAPPER,
    ERROR,
    NOTE,
    PRIORITY_CLASS,
    QUEUE_NAME,
    WARNING,
    Finding,
    Manifest,
    items,
    mapping,
    text,
)

SUBMITTER = "submitter"
SUBMITTER_REQUESTS = {"cpu": "500m", "memory": "200Mi"}
"""What KubeRay's own submitter asks for, beside head and workers."""
SUBMITTER_CONTAINER = {"name": SUBMITTER, "resources": {"requests": SUBMITTER_REQUESTS}}
AUTOSCALER_RESOURCES = {"requests": {"cpu": "500m", "memory": "512Mi"}}
"""Those of the autoscaler that KubeRay puts beside the head, unless it is given others."""
LEAST_PODS = "kueue.x-k8s.io/job-min-parallelism"
QUEUED_CLUSTERS = ("RayCluster", "RayJob", "RayService")
QUEUE_GROUPS = ("kueue.x-k8s.io", "config.kueue.x-k8s.io")
QUEUE_KINDS = ("PriorityClass", "Namespace")
"""Kinds of other groups that Kueue decides by."""


@dataclass(frozen=True)
class Need:
    """Pods of one shape that a job wants at the same time."""

    name: str
    count: int
    template: Mapping[str, object]
    least: int | None = None
    """The number that it begins with where there is no room for all; None: all."""


def queue_objects(manifests: Sequence[Manifest], namespace: str = DEFAULT_NAMESPACE) -> Read:
    """The objects of Kueue among these."""
    chosen = [
        manifest.root
        for manifest in manifests
        if not manifest.path and (manifest.group in QUEUE_GROUPS or manifest.kind in QUEUE_KINDS)
    ]
    return read_objects(chosen, namespace)


def problems(read: Read) -> Iterator[Finding]:
    """Everything wrong with objects of Kueue themselves."""
    for error in read.errors:
        level = NOTE if error.left_out else ERROR
        rule = "queues-left-out" if error.left_out else "queues"
        yield Finding(rule, level, error.file, error.line, error.path, error.message, error.hint)
    for warning in read.warnings:
        yield Finding(
            "queues", WARNING, warning.file, warning.line, warning.path, warning.message, warning.hint
        )


def needs(manifest: Manifest, manifests: Sequence[Manifest] = ()) -> tuple[Need, ...]:
    """Pods as Kueue counts those of this object; none for a kind that is not counted.

    `manifests` hold what is inside of an AppWrapper.
    """
    if manifest.kind == APP_WRAPPER:
        return tuple(
            Need(f"c{place}-{need.name}", need.count, need.template)
            for place, part in enumerate(parts(manifest, manifests))
            for need in _wrapped(part)
        )
    if manifest.kind == "Job" and manifest.group == "batch":
        return (_job_need(manifest),)
    if manifest.kind in QUEUED_CLUSTERS:
        return tuple(need for cluster in clusters(manifest) for need in _cluster_needs(cluster))
    return ()


def _wrapped(part: Manifest) -> tuple[Need, ...]:
    """Pods as AppWrapper's operator counts those of a part: of Ray's, head and `replicas`, nothing beside."""
    if part.kind == "Job":
        return needs(part)
    if part.kind not in ("RayCluster", "RayJob"):
        return ()
    groups = [group for cluster in clusters(part) for group in cluster.groups]
    return tuple(
        Need(group.name.lower() or "workers", whole(group.value.get("replicas"), 1), group.template)
        for group in groups
    )


def parts(wrapper: Manifest, manifests: Sequence[Manifest]) -> list[Manifest]:
    """What is inside of an AppWrapper."""
    return [
        manifest
        for manifest in manifests
        if manifest.inside
        and manifest.root.node is wrapper.root.node
        and manifest.path[: len(wrapper.path)] == wrapper.path
    ]


def _job_need(manifest: Manifest) -> Need:
    parallelism = whole(manifest.spec.get("parallelism"), 1)
    count = min(parallelism, whole(manifest.spec.get("completions"), parallelism))
    least = text(mapping(manifest.metadata.get("annotations")).get(LEAST_PODS))
    template = mapping(manifest.spec.get("template"))
    return Need("main", count, template, int(least) if re.fullmatch(r"[0-9]{1,9}", least) else None)


def _cluster_needs(cluster: RayCluster) -> list[Need]:
    at = JOB_AT.get(cluster.manifest.kind)
    job = {} if at is None else inside(cluster.manifest.value, at)
    if job.get("clusterSelector"):
        return []  # Kueue leaves a job alone that has no cluster of its own
    mode = "" if at is None else text(job.get("submissionMode")) or "K8sJobMode"
    beside: list[Mapping[str, object]] = []
    if cluster.autoscaled:
        own = cluster.autoscaler_options.get("resources")
        resources = own if isinstance(own, dict) else AUTOSCALER_RESOURCES
        beside.append({"name": "autoscaler", "resources": resources})
    if mode == "SidecarMode":
        beside.append(SUBMITTER_CONTAINER)
    head, *workers = cluster.groups
    pod = mapping(head.template.get("spec"))
    pod = {**pod, "containers": [*items(pod.get("containers")), *beside]}
    pods = [Need(head.name, 1, {"spec": pod})]
    pods += [Need(group.name.lower() or "workers", group.pods, group.template) for group in workers]
    if mode == "K8sJobMode":
        own = mapping(job.get("submitterPodTemplate"))
        pods.append(Need(SUBMITTER, 1, own or {"spec": {"containers": [SUBMITTER_CONTAINER]}}))
    return pods


def workload(manifest: Manifest, pods: Sequence[Need]) -> Workload | None:
    """These pods as one workload of the queues; None where there are none, or not all is understood."""
    import yaml

    pod_sets: list[dict[str, object]] = [
        {
            "name": need.name,
            "count": need.count,
            **({} if need.least is None else {"minCount": need.least}),
            "template": {"spec": dict(mapping(need.template.get("spec")))},
        }
        for need in pods
    ]
    document = {
        "apiVersion": VERSION,
        "kind": "Workload",
        "metadata": {"name": "checked", "namespace": manifest.namespace},
        "spec": {"queueName": text(manifest.labels.get(QUEUE_NAME)), "podSets": pod_sets},
    }
    read = read_objects(documents(yaml.safe_dump(document), "", Problems()), manifest.namespace)
    return read.workloads[0] if pods and read.workloads and not read.errors else None


def not_counted(manifests: Sequence[Manifest]) -> tuple[str, ...]:
    """Kinds of queued objects, or of their parts, whose pods are not held against a quota."""
    kinds: list[str] = []
    for manifest in manifests:
        if manifest.inside or not _has(manifest.value, QUEUE_NAME):
            continue
        queued = [manifest]
        count: Callable[[Manifest], tuple[Need, ...]] = needs
        if manifest.kind == APP_WRAPPER:
            queued = [part for part in parts(manifest, manifests) if _has(part.value, "containers")]
            count = _wrapped
        for part in queued:
            if QUEUE_NAME not in manifest.labels or workload(part, count(part)) is None:
                kinds.append(part.kind)
    return tuple(dict.fromkeys(kinds))


def _has(value: object, key: str) -> bool:
    """True when a mapping with this key is somewhere in it."""
    if isinstance(value, dict):
        return key in value or any(_has(inner, key) for inner in value.values())
    return isinstance(value, list) and any(_has(item, key) for item in value)


def check(manifests: Sequence[Manifest], read: Read) -> Iterator[Finding]:
    """Each queued job against its ClusterQueue, when nothing else is admitted."""
    for manifest in manifests:
        if manifest.inside or not (queue := text(manifest.labels.get(QUEUE_NAME))):
            continue
        if pods := needs(manifest, manifests):
            yield from _one(manifest, queue, pods, _without_unknowns(read.setup, manifest.namespace))


def _without_unknowns(setup: Setup, namespace: str) -> Setup:
    """The same, in which a flavor or a namespace that is not among the files is no hindrance."""
    queues = setup.cluster_queues
    names = {flavor.name for queue in queues.values() for group in queue.groups for flavor in group.flavors}
    if namespace not in setup.namespaces:
        queues = {name: replace(queue, selector=queue.selector and ()) for name, queue in queues.items()}
    flavors = {name: ResourceFlavor(name) for name in names} | dict(setup.flavors)
    return replace(setup, cluster_queues=queues, flavors=flavors)


def _one(manifest: Manifest, queue: str, pods: Sequence[Need], setup: Setup) -> Iterator[Finding]:
    at = ("metadata", "labels", QUEUE_NAME)
    space = manifest.namespace
    local_queue = setup.local_queues.get((space, queue))
    if local_queue is None:
        hint = meant(queue, [name for where, name in setup.local_queues if where == space])
        message = f"LocalQueue {space}/{queue} is not among these files: its quota was not checked"
        yield manifest.finding("quota", WARNING if hint else NOTE, at, message, hint)
        return
    if local_queue.cluster_queue not in setup.cluster_queues:
        message = f"ClusterQueue {local_queue.cluster_queue} of LocalQueue {queue} is not among these files"
        yield manifest.finding("quota", NOTE, at, message)
        return
    priority = text(manifest.labels.get(PRIORITY_CLASS))
    classes = [priority_class.name for priority_class in setup.priority_classes if not priority_class.pods]
    if priority and priority not in classes:
        hint = meant(priority, classes)
        message = f"WorkloadPriorityClass {priority} is not among these files"
        path = ("metadata", "labels", PRIORITY_CLASS)
        yield manifest.finding("priority", WARNING if hint else NOTE, path, message, hint)
    if why := refusal(manifest, pods, setup):
        less = [need for need in pods if need.name != SUBMITTER]
        alone = len(less) < len(pods) and not refusal(manifest, less, setup)
        rule = "submitter-quota" if alone else "quota"
        message = f"waits for ever in ClusterQueue {local_queue.cluster_queue}: {why}"
        hint = "raise the quota, or ask for less"
        if alone:
            amounts = " and ".join(f"{amount} {name}" for name, amount in SUBMITTER_REQUESTS.items())
            hint = "head and workers fit, but not with the pod that submits the job: raise the quota by its "
            hint += amounts
        elif uncovered := UNCOVERED.search(why):
            hint = f"give ClusterQueue {local_queue.cluster_queue} a quota of {uncovered[1]}: it has none"
        yield manifest.finding(rule, ERROR, at, message, hint)


def refusal(manifest: Manifest, pods: Sequence[Need], setup: Setup) -> str:
    """The reason that keeps these pods waiting while nothing else is admitted; empty when they are let in."""
    asked = workload(manifest, pods)
    if asked is None:
        return ""
    result = simulate(setup, [asked], cycles=1)
    item = next(iter(result.engine.items.values()))
    if item.state != PENDING:
        return ""
    reason, message = result.engine.condition(item)
    return message or reason
