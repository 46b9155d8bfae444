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
    template: Mapping[str, Any]


def queue_objects(manifests: Sequence[Manifest], namespace: str = DEFAULT_NAMESPACE) -> Read:
    """The objects of Kueue among these."""
    chosen = [
        each.root
        for each in manifests
        if not each.path and (each.group in QUEUE_GROUPS or each.kind in QUEUE_KINDS)
    ]
    return read_objects(chosen, namespace)


def found_in(read: Read) -> Iterator[Finding]:
    """Everything wrong with objects of Kueue themselves."""
    for each in read.errors:
        level = NOTE if each.left_out else ERROR
        rule = "queues-left-out" if each.left_out else "queues"
        yield Finding(rule, level, each.file, each.line, each.path, each.message, each.hint)
    for each in read.warnings:
        yield Finding("queues", WARNING, each.file, each.line, each.path, each.message, each.hint)


def needs(manifest: Manifest, manifests: Sequence[Manifest] = ()) -> tuple[Need, ...]:
    """Pods of a RayCluster, RayJob, RayService, Job or AppWrapper. `manifests` hold what is inside of it."""
    if manifest.kind == APP_WRAPPER:
        inner = [
            each
            for each in manifests
            if each.inside
            and each.root.node is manifest.root.node
            and each.path[: len(manifest.path)] == manifest.path
        ]
        return tuple(
            Need(f"c{place}-{need.name}", need.count, need.template)
            for place, each in enumerate(inner)
            for need in needs(each)
        )
    for cluster in clusters(manifest):
        return _cluster_needs(cluster)
    if manifest.kind == "Job" and manifest.group == "batch":
        count = whole(manifest.spec.get("parallelism"), 1)
        return (Need("main", count, mapping(manifest.spec.get("template"))),)
    return ()


def _cluster_needs(cluster: RayCluster) -> tuple[Need, ...]:
    found = [
        Need(each.name.lower() or "workers", each.pods, mapping(each.value.get("template")))
        for each in cluster.groups
    ]
    job = cluster.job
    if job is None:
        return tuple(found)
    mode = text(job.get("submissionMode")) or "K8sJobMode"
    if mode == "SidecarMode":
        head = found[0].template
        spec = mapping(head.get("spec"))
        sidecar = {"name": SUBMITTER, "resources": {"requests": SUBMITTER_REQUESTS}}
        inner = {**spec, "containers": [*items(spec.get("containers")), sidecar]}
        found[0] = Need(found[0].name, 1, {**head, "spec": inner})
    elif mode == "K8sJobMode":
        found.append(Need(SUBMITTER, 1, submitter(job)))
    return tuple(found)


def submitter(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """The template of the pod that submits a job: its own, else KubeRay's."""
    given = mapping(job.get("submitterPodTemplate"))
    if given:
        return given
    return {"spec": {"containers": [{"name": SUBMITTER, "resources": {"requests": SUBMITTER_REQUESTS}}]}}


def workload(manifest: Manifest, wanted: Sequence[Need]) -> dict[str, Any]:
    """A Workload of Kueue that asks for these pods, as YAML's types."""
    labels = manifest.labels
    spec: dict[str, Any] = {
        "queueName": text(labels.get(QUEUE_NAME)),
        "podSets": [
            {
                "name": each.name,
                "count": each.count,
                "template": {"spec": dict(mapping(each.template.get("spec")))},
            }
            for each in wanted
        ],
    }
    if priority := text(labels.get(PRIORITY_CLASS)):
        spec["priorityClassRef"] = {
            "group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": priority,
        }  # fmt: skip
    metadata = {"name": manifest.name, "namespace": manifest.namespace}
    return {"apiVersion": VERSION, "kind": "Workload", "metadata": metadata, "spec": spec}


def as_workload(manifest: Manifest, wanted: Sequence[Need], name: str = "asked") -> Workload | None:
    """The same as the queues take it; None where its pods cannot be understood."""
    import yaml

    given = workload(manifest, wanted)
    given["spec"].pop("priorityClassRef", None)
    given["metadata"]["name"] = name
    file = yaml.safe_dump(given, sort_keys=False)
    read = read_objects(documents(file, "", Problems()), manifest.namespace)
    return read.workloads[0] if read.workloads else None


def check(manifests: Sequence[Manifest], read: Read) -> Iterator[Finding]:
    """Each queued job against its ClusterQueue, when nothing else is admitted."""
    for each in manifests:
        if each.inside or not (queue := text(each.labels.get(QUEUE_NAME))):
            continue
        if wanted := needs(each, manifests):
            yield from _one(each, queue, wanted, read.setup)


def _one(manifest: Manifest, queue: str, wanted: Sequence[Need], setup: Setup) -> Iterator[Finding]:
    at = ("metadata", "labels", QUEUE_NAME)
    space = manifest.namespace
    door = setup.local_queues.get((space, queue))
    if door is None:
        names = [name for where, name in setup.local_queues if where == space]
        if names:
            told = f"namespace {space} has no LocalQueue {queue}: it waits for ever"
            yield manifest.finding("quota", ERROR, at, told, meant(queue, names))
        else:
            told = f"LocalQueue {space}/{queue} is not among these files: nobody asked if its quota is enough"
            yield manifest.finding("quota", NOTE, at, told)
        return
    if door.cluster_queue not in setup.cluster_queues:
        told = f"ClusterQueue {door.cluster_queue} of LocalQueue {queue} is not among these files"
        yield manifest.finding("quota", NOTE, at, told)
        return
    priority = text(manifest.labels.get(PRIORITY_CLASS))
    classes = [each.name for each in setup.priority_classes if not each.pods]
    if priority and priority not in classes:
        told = f"there is no WorkloadPriorityClass {priority} among these files"
        path = ("metadata", "labels", PRIORITY_CLASS)
        yield manifest.finding("priority", ERROR if classes else NOTE, path, told, meant(priority, classes))
    if why := refusal(manifest, wanted, setup):
        less = [each for each in wanted if each.name.rpartition("-")[2] != SUBMITTER]
        alone = len(less) < len(wanted) and not refusal(manifest, less, setup)
        told = f"waits for ever in ClusterQueue {door.cluster_queue}: {why}"
        hint = "raise the quota, or ask for less"
        if alone:
            amounts = " and ".join(f"{amount} {name}" for name, amount in SUBMITTER_REQUESTS.items())
            hint = "head and workers fit, but not with the pod that submits the job: raise the quota by its "
            hint += amounts
        elif uncovered := UNCOVERED.search(why):
            hint = f"give ClusterQueue {door.cluster_queue} a quota of {uncovered[1]}: it has none"
        yield manifest.finding("submitter-quota" if alone else "quota", ERROR, at, told, hint)


def refusal(manifest: Manifest, wanted: Sequence[Need], setup: Setup) -> str:
    """The reason that keeps these pods waiting while nothing else is admitted; empty when they are let in."""
    asked = as_workload(manifest, wanted)
    if asked is None:
        return ""
    result = simulate(setup, [asked], cycles=1)
    item = next(iter(result.engine.items.values()))
    if item.state != PENDING:
        return ""
    reason, message = result.engine.told(item)
    return message or reason
