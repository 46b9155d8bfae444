"""Ray's clusters in manifests of KubeRay: head, groups of workers, and what each pod asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from kueue.quantity import parse
from lab.flows.kubernetes.manifests import Manifest, Path_, items, mapping, text
from lab.version import __version__

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
GPU_KEYS = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
OBJECT_STORE = "object-store-memory"
SHARED_MEMORY = "/dev/shm"
VERSION = re.compile(r"(?<![\d.])(\d+)\.(\d+)\.(\d+)(?![\d.])")
RAY_IMAGES = ("ray", "ray-ml", "ray-llm")
LAB_IMAGE = "raylab/ray"


@dataclass(frozen=True)
class PodGroup:
    """The head, or a group of workers; `path` is where it stands in the manifest."""

    name: str
    path: Path_
    value: Mapping[str, object]
    head: bool

    @property
    def pod(self) -> Mapping[str, object]:
        """The spec of its pods."""
        return mapping(mapping(self.value.get("template")).get("spec"))

    @property
    def container(self) -> Mapping[str, object]:
        """The container that runs Ray: the first one."""
        return mapping(next(iter(items(self.pod.get("containers"))), None))

    @property
    def container_path(self) -> Path_:
        """Where that container stands."""
        return (*self.path, "template", "spec", "containers", 0)

    @property
    def params(self) -> Mapping[str, object]:
        """What is given to `ray start`."""
        return mapping(self.value.get("rayStartParams"))

    @property
    def pods(self) -> int:
        """The number of its pods."""
        if self.head:
            return 1
        return whole(self.value.get("replicas"), 0) * whole(self.value.get("numOfHosts"), 1)

    def resources(self, kind: str) -> Mapping[str, object]:
        """`limits` or `requests` of the container."""
        return mapping(mapping(self.container.get("resources")).get(kind))

    def amount(self, resource: str) -> Fraction | None:
        """The limit of a resource, else the request; None where neither is there."""
        for kind in ("limits", "requests"):
            if (amount := quantity(self.resources(kind).get(resource))) is not None:
                return amount
        return None

    def env(self) -> Mapping[str, object]:
        """Variables of the container: name -> value, None where it comes from elsewhere."""
        listed = (mapping(variable) for variable in items(self.container.get("env")))
        return {text(variable.get("name")): variable.get("value") for variable in listed}


@dataclass(frozen=True)
class RayCluster:
    """A cluster of Ray in a manifest: of its own, of a job or of a service."""

    manifest: Manifest
    path: Path_
    value: Mapping[str, object]

    @property
    def job(self) -> Mapping[str, object] | None:
        """The job that it is for, if any."""
        at = JOB_AT.get(self.manifest.kind)
        return None if at is None else inside(self.manifest.value, at)

    @property
    def groups(self) -> tuple[PodGroup, ...]:
        """The head first."""
        head = PodGroup("head", (*self.path, "headGroupSpec"), mapping(self.value.get("headGroupSpec")), True)
        workers = (
            PodGroup(
                text(mapping(group).get("groupName")),
                (*self.path, "workerGroupSpecs", place),
                mapping(group),
                False,
            )
            for place, group in enumerate(items(self.value.get("workerGroupSpecs")))
        )
        return (head, *workers)

    @property
    def autoscaled(self) -> bool:
        """True when the autoscaler runs beside the head."""
        return self.value.get("enableInTreeAutoscaling") is True

    @property
    def version(self) -> tuple[int, int, int] | None:
        """The version of Ray that it says it has."""
        return version_in(text(self.value.get("rayVersion")))


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


def quantity(value: object) -> Fraction | None:
    """A quantity as a number; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        return parse(str(value))
    except ValueError:
        return None


def version_in(words: str) -> tuple[int, int, int] | None:
    """The first version of three numbers in a text."""
    match = VERSION.search(words)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def ray_version_of(image: str) -> str | None:
    """The version of Ray in an image as its name tells it; None where it does not.

    The images of Ray have it as their tag. Those of the lab have the lab's version, and the Ray of that.
    """
    reference = image.partition("@")[0]
    repository, colon, tag = reference.rpartition(":")
    if not colon or "/" in tag:
        return None
    version = version_in(tag)
    if repository == LAB_IMAGE or repository.endswith(f"/{LAB_IMAGE}"):
        return RAY_VERSION if tag.split("-")[0] == __version__ else None
    last = repository.rsplit("/", 1)[-1]
    if last in RAY_IMAGES and version and tag.startswith(f"{version[0]}."):
        return ".".join(map(str, version))
    match = re.search(r"ray[-_.:]?v?(\d+\.\d+\.\d+)", tag)
    return match[1] if match else None


def python_of(image: str) -> str:
    """The Python in an image of Ray as its tag tells it, such as `py311`; else nothing."""
    match = re.search(r"-(py3\d+)\b", image.rpartition(":")[2])
    return match[1] if match else ""
