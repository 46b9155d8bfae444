"""Settings of an export, checked one by one, and the job that goes along."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from lab.cluster.packing import packed
from lab.cluster.recipes import MANIFEST, find_recipe
from lab.cluster.runtime_env import ON_NODES, excludes_of, sendable
from lab.cluster.submission import Submission
from lab.errors import UsageError
from lab.flows.recovery.outside import ENDPOINT, LEDGER
from lab.host.reading import read_bytes
from lab.topology import REGION, LabSpec, Vendor
from lab.version import __version__

Object: TypeAlias = dict[str, Any]
"""A manifest of Kubernetes, or a part of one, that is to be written."""

NAME = "a name in Kubernetes: up to 63 lower-case letters, digits and hyphens, no hyphen at an end"
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
IMAGE = re.compile(
    r"[a-z0-9]+([.:/_-]+[A-Za-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
VARIANTS: Mapping[Vendor, str] = {Vendor.NVIDIA: "cuda", Vendor.AMD: "rocm"}
RAY_VERSION = "2.60.0"
"""The Ray that the lab pins."""
GPU_RESOURCES: Mapping[Vendor, str] = {Vendor.NVIDIA: "nvidia.com/gpu", Vendor.AMD: "amd.com/gpu"}
DEFAULT_STORAGE = "s3://ray"
MEMORY, GPU_MEMORY = 4 * 1024**3, 16 * 1024**3
"""Bytes of a worker without and with a GPU."""
JOB_FOLDER = "/opt/raylab/job"
"""Folder of a job's code on every node."""
MOST_JOB_NAME = 47


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
        for option, value, form, what in (
            ("--namespace", self.namespace, LABEL, NAME),
            ("--queue", self.queue, LABEL, NAME),
            ("--priority", self.priority, LABEL, NAME),
            ("--runtime-class", self.runtime_class, LABEL, NAME),
            ("--region", self.region, LABEL, NAME),
            ("--storage", self.storage, LEDGER, "a bucket, such as s3://ray or s3://bucket/folder"),
            ("--endpoint", self.endpoint, ENDPOINT, "an address, such as http://minio.store:9000"),
            ("--image", self.image, IMAGE, "a reference to an image, such as team/ray:2.60.0-py311-cpu"),
        ):
            if value and not form.fullmatch(value):
                raise UsageError(f"{option} {value!r}: not {what}")
        for option, wanted, needed, there in (
            ("--queues", bool(self.queue_files), "--queue", self.queue),
            ("--priority", bool(self.priority), "--queue", self.queue),
            ("--code image", self.in_image, "--image", self.image),
        ):
            if wanted and not there:
                raise UsageError(f"{option} without {needed}", f"give {needed} too")
        if self.memory and self.memory < 1024**3:
            raise UsageError("--memory-per-worker: a node of Ray needs at least 1Gi")

    @property
    def in_image(self) -> bool:
        """True when code and recorder are in an image of their own."""
        return self.code_source == "image"

    @property
    def space(self) -> str:
        """The namespace."""
        return self.namespace or self.spec.name

    @property
    def kind(self) -> str:
        """The kind of the one object that is admitted, in small letters."""
        inner = "rayjob" if self.code else "raycluster"
        return "appwrapper" if self.app_wrapper else inner

    @property
    def code_files(self) -> Mapping[str, bytes]:
        """Files of the job; none without one."""
        return self.code.files if self.code else {}

    @property
    def labels(self) -> dict[str, str]:
        """Labels of every object of the lab."""
        return {"app.kubernetes.io/part-of": "raylab", "raylab.io/lab": self.spec.name}

    @property
    def own_image(self) -> str:
        """The lab's own image."""
        return f"raylab/ray:{__version__}-{VARIANTS.get(self.spec.gpu.vendor, 'cpu')}"

    @property
    def nodes_image(self) -> str:
        """The image of head and workers."""
        return self.image or self.own_image

    @property
    def gpu(self) -> str:
        """The resource that each worker gets one of; empty without GPUs."""
        return GPU_RESOURCES.get(self.spec.gpu.vendor, "")

    @property
    def worker_memory(self) -> int:
        """Bytes of each worker."""
        return self.memory or (GPU_MEMORY if self.gpu else MEMORY)


def recipe_of(name: str, settings: Mapping[str, str], storage: str, workers: int) -> Submission:
    """A recipe of workspace/, with a rank for each of the `workers` unless `settings` say otherwise.

    Raises NotFoundError, UsageError.
    """
    recipe = find_recipe(name)
    chosen = {**({recipe.ranks: str(workers)} if recipe.ranks else {}), **settings}
    if "storage" in {parameter.name for parameter in recipe.parameters}:
        chosen.setdefault("storage", storage)
    elif storage != DEFAULT_STORAGE:
        raise UsageError(
            f"--storage {storage}: the recipe {name} has no parameter storage: "
            f"it writes to {DEFAULT_STORAGE}",
            f"leave --storage at {DEFAULT_STORAGE}, or give the script after -- with an option of its own",
        )
    return recipe.submission(chosen)


def code_of(lab: str, submission: Submission) -> Code:
    """A job that brings the files of its folder, without hidden ones. Raises UsageError."""
    command, environment, folder = submission.command, submission.runtime_env, submission.working_dir
    recipe = submission.metadata.get("raylab_recipe", "")
    sendable(environment, "into manifests")
    if ON_NODES in json.dumps(environment):
        raise UsageError(f"runtime_env: {ON_NODES}: manifests have no working directory", "name packages")
    files: dict[str, bytes] = {}
    for path in packed(folder, [MANIFEST] if recipe else excludes_of(environment)) if folder else ():
        inside = path.relative_to(folder or path).as_posix()
        if path.is_dir() or inside.startswith(".") or "/." in inside:
            continue
        try:
            files[inside] = read_bytes(path)
        except OSError as error:
            raise UsageError(f"cannot read {path} of the job's folder: {error.strerror}") from error
    words = (word.removeprefix("./") for word in command)
    placed = tuple(
        f"{JOB_FOLDER}/{w}" if w in files else word for w, word in zip(words, command, strict=True)
    )
    script = next((word for word in command if word.endswith(".py")), command[0])
    name = re.sub(r"[^a-z0-9]+", "-", (recipe or Path(script).stem).lower()).strip("-") or "job"
    name = f"{lab}-{name}"[:MOST_JOB_NAME].rstrip("-")
    return Code(name, placed, files, environment, submission.metadata)
