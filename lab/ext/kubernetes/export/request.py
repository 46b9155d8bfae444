"""Settings of an export, checked one by one, and the job that goes along."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from lab.cluster.packing import packed
from lab.cluster.recipes import find_recipe
from lab.cluster.runtime_env import ON_NODES, excludes_of, sendable
from lab.cluster.submission import described
from lab.errors import UsageError
from lab.host.reading import read_bytes
from lab.topology import REGION, GpuAssignment, GpuPlan, LabSpec, Vendor
from lab.version import __version__

Object: TypeAlias = dict[str, Any]
"""A manifest of Kubernetes, or a part of one, that is to be written."""

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
IMAGE = re.compile(
    r"[a-z0-9]+([.:/_-]+[A-Za-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
STORAGE = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._/-]+)?")
ENDPOINT = re.compile(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?")
VARIANTS: Mapping[Vendor, str] = {Vendor.NVIDIA: "cuda", Vendor.AMD: "rocm"}
GPU_RESOURCES: Mapping[Vendor, str] = {Vendor.NVIDIA: "nvidia.com/gpu", Vendor.AMD: "amd.com/gpu"}
DEFAULT_STORAGE = "s3://ray"
LEAST_MEMORY = 1024**3
MEMORY, GPU_MEMORY = 4 * 1024**3, 16 * 1024**3
"""Bytes of a worker without and with a GPU."""
JOB_FOLDER = "/opt/raylab/job"
"""Folder of a job's code on every node."""
STORAGE_PARAMETER = "storage"
"""A parameter of a recipe that says where its checkpoints go."""
MOST_JOB_NAME = 47
PLAN_REASON = "asked for by the exported manifests"


@dataclass(frozen=True)
class Code:
    """A job: its command on the cluster, its files, and what it needs."""

    name: str
    """As part of the names of objects."""
    command: tuple[str, ...]
    files: Mapping[str, bytes]
    """Path in JOB_FOLDER -> content."""
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ExportRequest:
    """Everything that decides what is written. Raises UsageError for what no cluster takes."""

    spec: LabSpec
    namespace: str = ""
    """Empty: the lab's name."""
    image: str = ""
    """Empty: the lab's own image."""
    storage: str = DEFAULT_STORAGE
    endpoint: str = ""
    """Address of the object store; empty for AWS' own."""
    region: str = REGION
    memory: int = 0
    """Bytes of each worker; 0 for the usual."""
    queue: str = ""
    """Name of the LocalQueue; empty: without Kueue."""
    queue_files: tuple[Path, ...] = ()
    """Queues that go along; without them one is made that is just large enough."""
    priority: str = ""
    runtime_class: str = ""
    app_wrapper: bool = False
    code_source: str = "configmap"
    """Where code and recorder come from: ConfigMaps, or an `image` of its own."""
    code: Code | None = None

    def __post_init__(self) -> None:
        for option, name in (
            ("--namespace", self.namespace),
            ("--queue", self.queue),
            ("--priority", self.priority),
            ("--runtime-class", self.runtime_class),
            ("--region", self.region),
        ):
            if name and not LABEL.fullmatch(name):
                raise UsageError(
                    f"{option} {name!r}: not a name in Kubernetes",
                    "1 to 63 lower-case letters, digits and hyphens, with a letter or digit at both ends",
                )
        if self.queue_files and not self.queue:
            raise UsageError("--queues without --queue", "name the LocalQueue that the lab is submitted to")
        if self.priority and not self.queue:
            raise UsageError("--priority without --queue", "priorities are Kueue's: name a queue")
        if not STORAGE.fullmatch(self.storage):
            raise UsageError(
                f"--storage {self.storage!r}: not a bucket", "such as s3://ray or s3://bucket/folder"
            )
        if self.endpoint and not ENDPOINT.fullmatch(self.endpoint):
            raise UsageError(
                f"--endpoint {self.endpoint!r}: not an address", "such as http://minio.store:9000"
            )
        if self.memory and self.memory < LEAST_MEMORY:
            raise UsageError("--memory-per-worker: a node of Ray needs at least 1Gi")
        if self.image and not IMAGE.fullmatch(self.image):
            raise UsageError(
                f"--image {self.image!r}: not a reference to an image", "such as team/ray:2.60.0-py311-cpu"
            )
        if self.in_image and not self.image:
            raise UsageError("--code image without --image", "name the image that is to be built and pushed")

    @property
    def in_image(self) -> bool:
        """True when code and recorder are in an image of their own."""
        return self.code_source == "image"

    @property
    def space(self) -> str:
        """The namespace."""
        return self.namespace or self.spec.name

    @property
    def nodes_image(self) -> str:
        """The image of head and workers."""
        return self.image or f"raylab/ray:{__version__}-{VARIANTS.get(self.spec.gpu.vendor, 'cpu')}"

    @property
    def gpu(self) -> str:
        """The resource that each worker gets one of; empty without GPUs."""
        return GPU_RESOURCES.get(self.spec.gpu.vendor, "")

    @property
    def worker_memory(self) -> int:
        """Bytes of each worker."""
        return self.memory or (GPU_MEMORY if self.gpu else MEMORY)


def portable(spec: LabSpec) -> LabSpec:
    """The lab without what belongs to one machine: its ports, and which GPU each worker has."""
    vendor = spec.gpu.vendor
    if vendor is Vendor.SIMULATED:
        vendor = Vendor.NONE
    return replace(spec, ports=(), gpu=gpu_plan(vendor, spec))


def gpu_plan(vendor: Vendor, spec: LabSpec) -> GpuPlan:
    """One GPU of a vendor for each worker, whichever that is."""
    if vendor is Vendor.NONE:
        return GpuPlan(Vendor.NONE)
    return GpuPlan(vendor, tuple(GpuAssignment(name) for name in spec.worker_services), PLAN_REASON)


# Jobs


def recipe_code(
    lab: str, name: str, settings: Mapping[str, str], storage: str, workers: int | None = None
) -> Code:
    """A recipe of workspace/ as a job, with a rank for each of the `workers` unless `settings` say otherwise.

    Raises NotFoundError, UsageError.
    """
    recipe = find_recipe(name)
    known = {parameter.name for parameter in recipe.parameters}
    chosen = dict(settings)
    if workers is not None and recipe.ranks:
        chosen.setdefault(recipe.ranks, str(workers))
    if STORAGE_PARAMETER in known:
        chosen.setdefault(STORAGE_PARAMETER, storage)
    elif storage != DEFAULT_STORAGE:
        raise UsageError(
            f"--storage {storage}: the recipe {name} has no parameter {STORAGE_PARAMETER}: "
            f"it writes to {DEFAULT_STORAGE}",
            f"leave --storage at {DEFAULT_STORAGE}, or give the script after -- with an option of its own",
        )
    files = {path: data for path, data in files_of(recipe.folder).items() if path != "recipe.json"}
    command = placed(recipe.arguments(chosen), files)
    return Code(job_name(lab, name), command, files, metadata={"raylab_recipe": name})


def script_code(
    lab: str, command: tuple[str, ...], working_dir: Path | None, runtime_env: Path | None
) -> Code:
    """A command as a job, with the files of its folder. Raises NotFoundError, UsageError."""
    submission = described(command, working_dir, runtime_env=runtime_env)
    environment = submission.runtime_env
    sendable(environment, "into manifests")
    if ON_NODES in json.dumps(environment):
        raise UsageError(f"runtime_env: {ON_NODES}: manifests have no working directory", "name packages")
    folder = submission.working_dir
    files = files_of(folder, excludes_of(environment)) if folder else {}
    words = placed(submission.command, files)
    script = next((word for word in submission.command if word.endswith(".py")), submission.command[0])
    return Code(job_name(lab, Path(script).stem), words, files, dict(environment))


def files_of(folder: Path, excludes: Sequence[str] = ()) -> dict[str, bytes]:
    """Files of a folder that are sent with a job, without hidden ones. Raises UsageError."""
    files = {}
    for path in packed(folder, excludes):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() or name.startswith(".") or "/." in name:
            continue
        try:
            files[name] = read_bytes(path)
        except OSError as error:
            raise UsageError(f"cannot read {path} of the job's folder: {error.strerror}") from error
    return files


def placed(command: tuple[str, ...], files: Mapping[str, bytes]) -> tuple[str, ...]:
    """The command with the paths that its files have on the nodes."""
    return tuple(
        f"{JOB_FOLDER}/{word.removeprefix('./')}" if word.removeprefix("./") in files else word
        for word in command
    )


def job_name(lab: str, name: str) -> str:
    """A name for the job's objects."""
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "job"
    return f"{lab}-{words}"[:MOST_JOB_NAME].rstrip("-")


def entrypoint(code: Code) -> str:
    """The command as one line for a shell."""
    return shlex.join(code.command)
