"""Rules of KubeRay that no schema holds, and mistakes that users repeat: names, and nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kueue.reading.nodes import INT32, meant
from lab.flows.kubernetes.clusters import (
    GPU_KEYS,
    OBJECT_STORE,
    RAY,
    SHARED_MEMORY,
    PodGroup,
    RayCluster,
    inside,
    quantity,
    whole,
)
from lab.flows.kubernetes.manifests import (
    ERROR,
    NOTE,
    WARNING,
    Finding,
    Manifest,
    Path_,
    items,
    mapping,
    text,
)
from lab.host.reading import parse_json

DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LONGEST = {"RayCluster": 53, "RayJob": 47, "RayService": 47, "RayCronJob": 36}
"""Kind -> most characters of a name: what KubeRay makes of it must be a name too."""
GENERATED = 5
"""Characters that generateName gets."""
OWN = ("cpu", "memory", "ephemeral-storage")
"""Resources of Kubernetes itself."""
GPU_WORDS = {key.lower(): key for key in GPU_KEYS}


def names(manifest: Manifest) -> Iterator[Finding]:
    """Names that KubeRay refuses."""
    most = LONGEST.get(manifest.kind)
    if manifest.group != RAY or most is None or not manifest.name:
        return
    name = manifest.name
    generated = not manifest.metadata.get("name")
    length = len(name) + (GENERATED if generated else 0)
    path = ("metadata", "generateName" if generated else "name")
    if length > most:
        message = f"a {manifest.kind}'s name has at most {most} characters, this one {length}"
        yield manifest.finding("name-length", ERROR, path, message)
    if not DNS_LABEL.fullmatch(f"{name}x" if generated else name):
        message = f"{name!r} is not a valid name: lower-case letters, digits and '-', beginning with a letter"
        yield manifest.finding("name", ERROR, path, message)


# Groups of nodes


def replicas(cluster: RayCluster) -> Iterator[Finding]:
    """Numbers of workers that cannot be set together, and groups that share a name."""
    seen: set[str] = set()
    for group in cluster.groups[1:]:
        value, at = group.value, group.path
        if group.name in seen:
            yield cluster.manifest.finding(
                "groups", ERROR, (*at, "groupName"), f"a second group {group.name}"
            )
        seen.add(group.name)
        for name, usual in (("minReplicas", 0), ("maxReplicas", INT32)):
            if value.get(name) is None:
                message = f"{name} is not set: kubectl refuses that, the API server itself takes {usual}"
                yield cluster.manifest.finding("min-max", WARNING, at, message)
        least, most = whole(value.get("minReplicas"), 0), whole(value.get("maxReplicas"), INT32)
        now = whole(value.get("replicas"), least)
        if least < 0 or most < 0:
            yield cluster.manifest.finding(
                "min-max", ERROR, at, "minReplicas and maxReplicas must be 0 or more"
            )
        elif least > most:
            message = f"minReplicas {least} is more than maxReplicas {most}"
            yield cluster.manifest.finding("min-max", ERROR, (*at, "minReplicas"), message)
        elif not least <= now <= most:
            message = f"replicas {now} is not from {least} to {most}"
            hint = (
                "the autoscaler fails on it" if cluster.autoscaled else "KubeRay sets it to the nearer limit"
            )
            level = ERROR if cluster.autoscaled else WARNING
            yield cluster.manifest.finding("min-max", level, (*at, "replicas"), message, hint)
        if value.get("maxReplicas") == INT32 and cluster.autoscaled:
            message = "maxReplicas is KubeRay's default: the autoscaler may ask for any number of nodes"
            yield cluster.manifest.finding("min-max", WARNING, (*at, "maxReplicas"), message)


def start_params(cluster: RayCluster) -> Iterator[Finding]:
    """Parameters of `ray start` that KubeRay or Ray cannot use."""
    for group in cluster.groups:
        at = (*group.path, "rayStartParams")
        manifest = cluster.manifest
        if "labels" in group.params:
            message = "labels are not taken here"
            yield manifest.finding(
                "start-params", ERROR, (*at, "labels"), message, "write them as the group's labels"
            )
        given = [name for name in ("num-cpus", "num-gpus", "memory", "resources") if group.params.get(name)]
        if given and mapping(group.value.get("resources")):
            message = f"{', '.join(given)} and the group's resources cannot be set together"
            yield manifest.finding("start-params", ERROR, at, message)
        if text(group.params.get("resources")) and not _quoted_json(text(group.params.get("resources"))):
            message = "is not JSON in quotes of its own: the shell of the node takes the others away"
            hint = """write resources: '"{\\"name\\": 1}"'"""
            yield manifest.finding("start-params-resources", ERROR, (*at, "resources"), message, hint)


def _quoted_json(words: str) -> bool:
    if len(words) < 2 or words[0] != words[-1] or words[0] not in "'\"":
        return False
    try:
        amounts = parse_json(words[1:-1].replace("\\", ""))
    except ValueError:
        return False
    return isinstance(amounts, dict) and all(isinstance(amount, int) for amount in amounts.values())


def resources(cluster: RayCluster) -> Iterator[Finding]:
    """Requests and limits from which Ray takes something else than was meant."""
    manifest = cluster.manifest
    for group in cluster.groups:
        if not group.container:
            yield manifest.finding("containers", ERROR, group.path, f"group {group.name} has no container")
            continue
        at = (*group.container_path, "resources")
        limits, requests = group.resources("limits"), group.resources("requests")
        yield from _amounts(manifest, group.container, group.container_path)
        for key in GPU_KEYS:
            limit, asked = quantity(limits.get(key)), quantity(requests.get(key))
            if group.head and (limit or asked):
                message = (
                    f"the head asks for {key}: it is then no worker's, and jobs may run beside the scheduler"
                )
                yield manifest.finding("head-gpu", WARNING, (*at, "limits", key), message)
        known = {*group.params, *(key.lower() for key in mapping(group.value.get("resources")))}
        if group.amount("cpu") is None and not {"num-cpus", "cpu"} & known:
            level = ERROR if cluster.autoscaled else WARNING
            message = "no limit and no request of cpu: Ray counts those of the whole machine"
            hint = "the autoscaler fails on it" if cluster.autoscaled else "set resources.limits.cpu"
            yield manifest.finding("cpu-limits", level, at, message, hint)
        if group.amount("memory") is None and "memory" not in known:
            message = "no limit of memory: Ray counts that of the whole machine"
            yield manifest.finding("memory-limits", NOTE, at, message)
        yield from _memory(manifest, group)
        yield from _runtime_class(manifest, group)


def accelerators(manifest: Manifest) -> Iterator[Finding]:
    """GPUs of pods that are none of Ray's, such as those of a Job."""
    at: Path_ = ("spec",) if manifest.kind == "Pod" else ("spec", "template", "spec")
    for place, container in enumerate(items(inside(manifest.value, at).get("containers"))):
        yield from _amounts(manifest, mapping(container), (*at, "containers", place))


def _amounts(manifest: Manifest, container: Mapping[str, object], path: Path_) -> Iterator[Finding]:
    """Requests and limits that Kubernetes refuses, or that no node has; most are about GPUs."""
    given = mapping(container.get("resources"))
    limits, requests = mapping(given.get("limits")), mapping(given.get("requests"))
    at = (*path, "resources")
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for key in amounts:
            right = GPU_WORDS.get(str(key).lower())
            if "/" not in key and key not in OWN and not key.startswith("hugepages-"):
                message = f"{key}: Kubernetes has no resource of this name, and refuses the pod"
                hint = meant(key, OWN) or f"those of devices have a prefix: {GPU_KEYS[0]}"
                yield manifest.finding("resource-name", ERROR, (*at, kind, key), message, hint)
            if right not in (None, key):
                message = f"{key}: names of resources are case-sensitive; no node has this one"
                yield manifest.finding("gpu-name", ERROR, (*at, kind, key), message, f"did you mean {right}?")
    for key in GPU_KEYS:
        asked, limit = quantity(requests.get(key)), quantity(limits.get(key))
        if asked and not limit:
            message = f"{key} is requested, but has no limit: Kubernetes refuses it, and Ray sees no GPU"
            yield manifest.finding(
                "gpu-limits", ERROR, (*at, "requests", key), message, f"set limits.{key} too"
            )
        elif limit and asked is not None and asked != limit:
            message = f"{key}: request and limit must be equal"
            yield manifest.finding("gpu-limits", ERROR, (*at, "requests", key), message)


def _memory(manifest: Manifest, group: PodGroup) -> Iterator[Finding]:
    store, limit = quantity(group.params.get(OBJECT_STORE)), group.amount("memory")
    path = (*group.path, "rayStartParams", OBJECT_STORE)
    if store and limit and store >= limit:
        message = f"{OBJECT_STORE} {int(store)} is not less than the memory of the pod, {int(limit)}"
        yield manifest.finding("object-store", ERROR, path, message, "30 % of the memory is Ray's own choice")
    mounts = {
        text(mapping(m).get("mountPath")): text(mapping(m).get("name"))
        for m in items(group.container.get("volumeMounts"))
    }
    if SHARED_MEMORY not in mounts:
        if "plasma-directory" in group.params and store is None:
            message = "plasma-directory without object-store-memory, and KubeRay then mounts no /dev/shm"
            yield manifest.finding("shared-memory", WARNING, (*group.path, "rayStartParams"), message)
        return
    volumes = {text(mapping(v).get("name")): mapping(v) for v in items(group.pod.get("volumes"))}
    volume = mapping(volumes.get(mounts[SHARED_MEMORY]))
    folder = mapping(volume.get("emptyDir"))
    at = (*group.path, "template", "spec", "volumes")
    if text(folder.get("medium")) != "Memory":
        message = "/dev/shm is mounted, but not from memory: Ray's object store would be on a disk"
        yield manifest.finding("shared-memory", ERROR, at, message, "emptyDir: {medium: Memory}")
    size = quantity(folder.get("sizeLimit"))
    if size and store and size < store:
        message = f"/dev/shm holds {int(size)} bytes, Ray's object store wants {int(store)}"
        yield manifest.finding("shared-memory", ERROR, at, message)
    if size and limit and size > limit:
        message = "/dev/shm counts as memory of the pod, and may grow beyond its limit"
        yield manifest.finding("shared-memory", WARNING, at, message)


def _runtime_class(manifest: Manifest, group: PodGroup) -> Iterator[Finding]:
    if group.amount("nvidia.com/gpu") and not group.pod.get("runtimeClassName"):
        message = (
            "no runtimeClassName: the GPU is seen only where NVIDIA's is the default runtime of the nodes"
        )
        at = (*group.path, "template", "spec")
        yield manifest.finding(
            "runtime-class", NOTE, at, message, "where it is not: runtimeClassName: nvidia"
        )


NODE_RULES = (replicas, start_params, resources)
