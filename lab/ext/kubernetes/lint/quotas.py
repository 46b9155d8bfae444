"""Quotas against what jobs ask for: the lab's queues decide, as Kueue would, on a cluster that is empty."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kueue.item import PENDING
from kueue.model import ResourceFlavor, Setup, Workload
from kueue.plainly import UNCOVERED
from kueue.reading import DEFAULT_NAMESPACE, Read, read_objects
from kueue.reading.nodes import Problems, documents, meant
from kueue.simulate import simulate
from kueue.writing import VERSION
from lab.ext.kubernetes.documents import ERROR, NOTE, WARNING, Finding
from lab.ext.kubernetes.manifests import (
    APP_WRAPPER,
    QUEUE_NAME,
    Manifest,
    components,
    items,
    mapping,
    text,
)

CLUSTER_AT = {"RayCluster": "", "RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}
"""Kind -> field of its spec that has its cluster."""
SUBMITTER = {"name": "submitter", "resources": {"requests": {"cpu": "500m", "memory": "200Mi"}}}
"""The container by which KubeRay submits a job, beside head and workers."""
LEAST_PODS = "kueue.x-k8s.io/job-min-parallelism"
QUEUE_GROUPS = ("kueue.x-k8s.io", "config.kueue.x-k8s.io")
QUEUE_KINDS = ("PriorityClass", "Namespace")
"""Kinds of other groups that Kueue decides by."""

Values = Mapping[str, object]
"""An object of Kubernetes, or a part of one."""


def queue_objects(manifests: Sequence[Manifest], namespace: str = DEFAULT_NAMESPACE) -> Read:
    """The objects of Kueue among these."""
    chosen = [
        manifest.root
        for manifest in manifests
        if not manifest.path and (manifest.group in QUEUE_GROUPS or manifest.kind in QUEUE_KINDS)
    ]
    return read_objects(chosen, namespace)


def needs(job: Values, *, wrapped: bool = False) -> list[Values]:
    """Pods as Kueue counts those of this object, or, `wrapped`, as AppWrapper's operator does: pod sets.

    None for a kind that is not counted.
    """
    kind, spec = text(job.get("kind")), mapping(job.get("spec"))
    if kind == APP_WRAPPER:
        parts = [(place, needs(part, wrapped=True)) for place, part in enumerate(components(job))]
        return [{**pods, "name": f"c{place}-{pods['name']}"} for place, part in parts for pods in part]
    if kind == "Job":
        return [_of_job(job, spec)]
    if kind not in CLUSTER_AT or (wrapped and kind == "RayService"):
        return []
    cluster = mapping(spec.get(CLUSTER_AT[kind])) if CLUSTER_AT[kind] else spec
    if not cluster or spec.get("clusterSelector"):  # Kueue leaves a job alone that has no cluster of its own
        return []
    mode = text(spec.get("submissionMode")) or "K8sJobMode" if kind == "RayJob" else ""
    head = mapping(mapping(cluster.get("headGroupSpec")).get("template"))
    if mode == "SidecarMode" and not wrapped:
        pod = mapping(head.get("spec"))
        head = {"spec": {**pod, "containers": [*items(pod.get("containers")), SUBMITTER]}}
    pods = [_pods("head", 1, head)]
    for group in map(mapping, items(cluster.get("workerGroupSpecs"))):
        hosts = 1 if wrapped else max(whole(group.get("numOfHosts"), 1), 1)
        count = whole(group.get("replicas"), int(wrapped)) * hosts
        pods.append(_pods(text(group.get("groupName")).lower() or "workers", count, group.get("template")))
    if mode == "K8sJobMode" and not wrapped:
        own = mapping(spec.get("submitterPodTemplate"))
        pods.append(_pods("submitter", 1, own or {"spec": {"containers": [SUBMITTER]}}))
    return pods


def _pods(name: str, count: int, template: object) -> Values:
    pod = mapping(mapping(template).get("spec"))
    return {"name": name, "count": count, "template": {"spec": pod}}


def _of_job(job: Values, spec: Values) -> Values:
    parallelism = whole(spec.get("parallelism"), 1)
    count = min(parallelism, whole(spec.get("completions"), parallelism))
    pods = _pods("main", count, spec.get("template"))
    least = text(mapping(mapping(job.get("metadata")).get("annotations")).get(LEAST_PODS))
    return {**pods, "minCount": int(least)} if re.fullmatch(r"[0-9]{1,9}", least) else pods


def whole(value: object, default: int) -> int:
    """The value if it is a whole number, else the default."""
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def workload(manifest: Manifest, pods: Sequence[Values]) -> Workload | None:
    """These pods as one workload of the queues; None where there are none, or not all is understood."""
    document = {
        "apiVersion": VERSION,
        "kind": "Workload",
        "metadata": {"name": "checked", "namespace": manifest.namespace},
        "spec": {"queueName": text(manifest.labels.get(QUEUE_NAME)), "podSets": pods},
    }
    read = read_objects(documents(json.dumps(document), "", Problems()), manifest.namespace)
    return read.workloads[0] if pods and read.workloads and not read.errors else None


def not_counted(manifests: Sequence[Manifest]) -> tuple[str, ...]:
    """Kinds of queued objects, or of their parts, whose pods are not held against a quota."""
    kinds: dict[str, None] = {}
    for manifest in manifests:
        if manifest.wrapped or not _has(manifest.value, QUEUE_NAME):
            continue
        wrapped = manifest.kind == APP_WRAPPER
        for part in components(manifest.value) if wrapped else [manifest.value]:
            counted = QUEUE_NAME in manifest.labels and workload(manifest, needs(part, wrapped=wrapped))
            if not counted and (not wrapped or _has(part, "containers")):
                kinds[text(part.get("kind"))] = None
    return tuple(kinds)


def _has(value: object, key: str) -> bool:
    """True when a mapping with this key is somewhere in it."""
    if isinstance(value, dict):
        return key in value or any(_has(inner, key) for inner in value.values())
    return isinstance(value, list) and any(_has(item, key) for item in value)


def check(manifests: Sequence[Manifest], setup: Setup) -> Iterator[Finding]:
    """Each queued job against its ClusterQueue, when nothing else is admitted."""
    for manifest in manifests:
        queue = text(manifest.labels.get(QUEUE_NAME))
        if queue and not manifest.wrapped and (pods := needs(manifest.value)):
            yield from _one(manifest, queue, pods, setup)


def _one(manifest: Manifest, queue: str, pods: Sequence[Values], setup: Setup) -> Iterator[Finding]:
    at, space = ("metadata", "labels", QUEUE_NAME), manifest.namespace
    local_queue = setup.local_queues.get((space, queue))
    above = local_queue.cluster_queue if local_queue else ""
    if above not in setup.cluster_queues:
        hint = (
            meant(queue, [name for where, name in setup.local_queues if where == space]) if not above else ""
        )
        what = f"ClusterQueue {above} of {queue}" if above else f"LocalQueue {space}/{queue}"
        message = f"{what} is not among these files: its quota was not checked"
        yield manifest.finding("quota", WARNING if hint else NOTE, at, message, hint)
        return
    if why := _refusal(manifest, pods, setup):
        hint = "raise the quota, or ask for less"
        if uncovered := UNCOVERED.search(why):
            hint = f"give ClusterQueue {above} a quota of {uncovered[1]}: it has none"
        elif any(pod_set["name"] == "submitter" for pod_set in pods):
            hint += "; the pod that submits the job counts too, by itself with 500m cpu and 200Mi memory"
        yield manifest.finding("quota", ERROR, at, f"waits for ever in ClusterQueue {above}: {why}", hint)


def _refusal(manifest: Manifest, pods: Sequence[Values], setup: Setup) -> str:
    """The reason that keeps these pods waiting while nothing else is admitted; empty when they are let in.

    A flavor or a namespace that is not among the files is no hindrance.
    """
    asked = workload(manifest, pods)
    if asked is None:
        return ""
    queues = setup.cluster_queues
    names = {flavor.name for queue in queues.values() for group in queue.groups for flavor in group.flavors}
    if manifest.namespace not in setup.namespaces:
        queues = {name: replace(queue, selector=queue.selector and ()) for name, queue in queues.items()}
    flavors = {name: ResourceFlavor(name) for name in names} | dict(setup.flavors)
    result = simulate(replace(setup, cluster_queues=queues, flavors=flavors), [asked], cycles=1)
    item = next(iter(result.engine.items.values()))
    if item.state != PENDING:
        return ""
    reason, message = result.engine.condition(item)
    return message or reason
