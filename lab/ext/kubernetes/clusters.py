"""Ray's clusters in manifests of KubeRay: head and groups of workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab.ext.kubernetes.manifests import Manifest, Path_, items, mapping, text

RAY = "ray.io"
RAY_VERSION = "2.60.0"
"""The Ray that the lab pins."""
CLUSTER_AT: Mapping[str, Path_] = {
    "RayCluster": ("spec",),
    "RayJob": ("spec", "rayClusterSpec"),
    "RayService": ("spec", "rayClusterConfig"),
    "RayCronJob": ("spec", "jobTemplate", "rayClusterSpec"),
}
"""Kind -> where its cluster stands."""
JOB_AT: Mapping[str, Path_] = {"RayJob": ("spec",), "RayCronJob": ("spec", "jobTemplate")}
"""Kind -> where its job stands."""


@dataclass(frozen=True)
class PodGroup:
    """The head, or a group of workers; `path` is where it stands in the manifest."""

    name: str
    path: Path_
    value: Mapping[str, object]
    pods: int

    @property
    def template(self) -> Mapping[str, object]:
        """The template of its pods."""
        return mapping(self.value.get("template"))


@dataclass(frozen=True)
class RayCluster:
    """A cluster of Ray in a manifest: of its own, of a job or of a service."""

    manifest: Manifest
    path: Path_
    value: Mapping[str, object]

    @property
    def groups(self) -> tuple[PodGroup, ...]:
        """The head first."""
        head = PodGroup("head", (*self.path, "headGroupSpec"), mapping(self.value.get("headGroupSpec")), 1)
        workers = []
        for place, item in enumerate(items(self.value.get("workerGroupSpecs"))):
            group = mapping(item)
            pods = whole(group.get("replicas"), 0) * max(whole(group.get("numOfHosts"), 1), 1)
            path = (*self.path, "workerGroupSpecs", place)
            workers.append(PodGroup(text(group.get("groupName")), path, group, pods))
        return (head, *workers)

    @property
    def autoscaled(self) -> bool:
        """True when the autoscaler runs beside the head."""
        return self.value.get("enableInTreeAutoscaling") is True

    @property
    def autoscaler_options(self) -> Mapping[str, object]:
        """Settings of the autoscaler's container."""
        return mapping(self.value.get("autoscalerOptions"))


def clusters(manifest: Manifest) -> Iterator[RayCluster]:
    """The cluster in this object, if there is one."""
    at = CLUSTER_AT.get(manifest.kind)
    if manifest.group == RAY and at is not None and (value := inside(manifest.value, at)):
        yield RayCluster(manifest, at, value)


def inside(value: Mapping[str, object], path: Path_) -> Mapping[str, object]:
    """The mapping at this path; an empty one where there is none."""
    inner: object = value
    for part in path:
        inner = mapping(inner).get(str(part))
    return mapping(inner)


def whole(value: object, default: int) -> int:
    """The value if it is a whole number, else the default."""
    return value if isinstance(value, int) and not isinstance(value, bool) else default
