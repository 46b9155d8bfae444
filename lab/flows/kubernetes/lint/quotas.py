"""Quotas against what jobs ask for: the lab's queues decide, as Kueue would, on a cluster that is empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kueue.item import PENDING
from kueue.model import Setup, Workload
from kueue.plainly import UNCOVERED
from kueue.reading import DEFAULT_NAMESPACE, Read, read_objects
from kueue.reading.nodes import Problems, documents, meant
from kueue.simulate import simulate
from kueue.writing import VERSION
from lab.flows.kubernetes.clusters import RayCluster, clusters, whole
from lab.flows.kubernetes.manifests import (
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
QUEUE_GROUPS = ("kueue.x-k8s.io", "config.kueue.x-k8s.io")
QUEUE_KINDS = ("PriorityClass", "Namespace")
"""Kinds of other groups that Kueue decides by."""


@dataclass(frozen=True)
class Need:
    """Pods of one shape that a job wants at the same time."""

    name: str
    count: int
    template: Mapping[str, object]


def queue_objects(manifests: Sequence[Manifest], namespace: str = DEFAULT_NAMESPACE) -> Read:
    """The objects of Kueue among these."""
    chosen = [
        manifest.root
        for manifest in manifests
        if not manifest.path and (manifest.group in QUEUE_GROUPS or manifest.kind in QUEUE_KINDS)
    ]
    return read_objects(chosen, namespace)


def found_in(read: Read) -> Iterator[Finding]:
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
    """Pods of a RayCluster, RayJob, RayService, Job or AppWrapper. `manifests` hold what is inside of it."""
    if manifest.kind == APP_WRAPPER:
        inner = [
            candidate
            for candidate in manifests
            if candidate.inside
            and candidate.root.node is manifest.root.node
            and candidate.path[: len(manifest.path)] == manifest.path
        ]
        return tuple(
            Need(f"c{place}-{need.name}", need.count, need.template)
            for place, candidate in enumerate(inner)
            for need in needs(candidate)
        )
    for cluster in clusters(manifest):
        return _cluster_needs(cluster)
    if manifest.kind == "Job" and manifest.group == "batch":
        count = whole(manifest.spec.get("parallelism"), 1)
        return (Need("main", count, mapping(manifest.spec.get("template"))),)
    return ()


def _cluster_needs(cluster: RayCluster) -> tuple[Need, ...]:
    required = [
        Need(group.name.lower() or "workers", group.pods, mapping(group.value.get("template")))
        for group in cluster.groups
    ]
    job = cluster.job
    if job is None:
        return tuple(required)
    mode = text(job.get("submissionMode")) or "K8sJobMode"
    if mode == "SidecarMode":
        head = required[0].template
        spec = mapping(head.get("spec"))
        sidecar = {"name": SUBMITTER, "resources": {"requests": SUBMITTER_REQUESTS}}
        inner = {**spec, "containers": [*items(spec.get("containers")), sidecar]}
        required[0] = Need(required[0].name, 1, {**head, "spec": inner})
    elif mode == "K8sJobMode":
        required.append(Need(SUBMITTER, 1, submitter(job)))
    return tuple(required)


def submitter(job: Mapping[str, object]) -> Mapping[str, object]:
    """The template of the pod that submits a job: its own, else KubeRay's."""
    given = mapping(job.get("submitterPodTemplate"))
    if given:
        return given
    return {"spec": {"containers": [{"name": SUBMITTER, "resources": {"requests": SUBMITTER_REQUESTS}}]}}


def workload(manifest: Manifest, wanted: Sequence[Need]) -> dict[str, Any]:
    """A Workload of Kueue that asks for these pods, as YAML's types."""
    labels = manifest.labels
    spec: dict[str, object] = {
        "queueName": text(labels.get(QUEUE_NAME)),
        "podSets": [
            {
                "name": need.name,
                "count": need.count,
                "template": {"spec": dict(mapping(need.template.get("spec")))},
            }
            for need in wanted
        ],
    }
    if priority := text(labels.get(PRIORITY_CLASS)):
        spec["priorityClassRef"] = {
            "group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": priority,
        }  # fmt: skip
    metadata = {"name": manifest.name, "namespace": manifest.namespace}
    return {"apiVersion": VERSION, "kind": "Workload", "metadata": metadata, "spec": spec}


def as_workload(manifest: Manifest, wanted: Sequence[Need]) -> Workload | None:
    """The same as the queues take it; None where its pods cannot be understood."""
    import yaml

    given = workload(manifest, wanted)
    given["spec"].pop("priorityClassRef", None)
    given["metadata"]["name"] = "asked"
    file = yaml.safe_dump(given, sort_keys=False)
    read = read_objects(documents(file, "", Problems()), manifest.namespace)
    return read.workloads[0] if read.workloads else None


def check(manifests: Sequence[Manifest], read: Read) -> Iterator[Finding]:
    """Each queued job against its ClusterQueue, when nothing else is admitted."""
    for manifest in manifests:
        if manifest.inside or not (queue := text(manifest.labels.get(QUEUE_NAME))):
            continue
        if wanted := needs(manifest, manifests):
            yield from _one(manifest, queue, wanted, read.setup)


def _one(manifest: Manifest, queue: str, wanted: Sequence[Need], setup: Setup) -> Iterator[Finding]:
    at = ("metadata", "labels", QUEUE_NAME)
    space = manifest.namespace
    local_queue = setup.local_queues.get((space, queue))
    if local_queue is None:
        names = [name for where, name in setup.local_queues if where == space]
        if names:
            message = f"namespace {space} has no LocalQueue {queue}: it waits for ever"
            yield manifest.finding("quota", ERROR, at, message, meant(queue, names))
        else:
            message = f"LocalQueue {space}/{queue} is not among these files: its quota was not checked"
            yield manifest.finding("quota", NOTE, at, message)
        return
    if local_queue.cluster_queue not in setup.cluster_queues:
        message = f"ClusterQueue {local_queue.cluster_queue} of LocalQueue {queue} is not among these files"
        yield manifest.finding("quota", NOTE, at, message)
        return
    priority = text(manifest.labels.get(PRIORITY_CLASS))
    classes = [priority_class.name for priority_class in setup.priority_classes if not priority_class.pods]
    if priority and priority not in classes:
        message = f"there is no WorkloadPriorityClass {priority} among these files"
        path = ("metadata", "labels", PRIORITY_CLASS)
        yield manifest.finding(
            "priority", ERROR if classes else NOTE, path, message, meant(priority, classes)
        )
    if why := refusal(manifest, wanted, setup):
        less = [need for need in wanted if need.name.rpartition("-")[2] != SUBMITTER]
        alone = len(less) < len(wanted) and not refusal(manifest, less, setup)
        message = f"waits for ever in ClusterQueue {local_queue.cluster_queue}: {why}"
        hint = "raise the quota, or ask for less"
        if alone:
            amounts = " and ".join(f"{amount} {name}" for name, amount in SUBMITTER_REQUESTS.items())
            hint = "head and workers fit, but not with the pod that submits the job: raise the quota by its "
            hint += amounts
        elif uncovered := UNCOVERED.search(why):
            hint = f"give ClusterQueue {local_queue.cluster_queue} a quota of {uncovered[1]}: it has none"
        yield manifest.finding("submitter-quota" if alone else "quota", ERROR, at, message, hint)


def refusal(manifest: Manifest, wanted: Sequence[Need], setup: Setup) -> str:
    """The reason that keeps these pods waiting while nothing else is admitted; empty when they are let in."""
    asked = as_workload(manifest, wanted)
    if asked is None:
        return ""
    result = simulate(setup, [asked], cycles=1)
    item = next(iter(result.engine.items.values()))
    if item.state != PENDING:
        return ""
    reason, message = result.engine.condition(item)
    return message or reason
