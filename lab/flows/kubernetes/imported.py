"""Manifests read back: a lab of the same shape with its job and queues, to replay a cluster's trouble."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lab.cluster import patches
from lab.errors import ManifestError, NotFoundError, UsageError
from lab.flows.kubernetes.clusters import Group, RayCluster, clusters, quantity
from lab.flows.kubernetes.export.wanted import GPU_RESOURCES, gpu_plan
from lab.flows.kubernetes.imported_job import Job, job_of
from lab.flows.kubernetes.lint.quotas import as_workload, needs, queue_objects
from lab.flows.kubernetes.manifests import (
    APP_WRAPPER,
    PRIORITY_CLASS,
    QUEUE_NAME,
    Manifest,
    mapping,
    read_manifests,
    text,
)
from lab.host.quantities import plural
from lab.queue.model import Setup, Workload
from lab.queue.reading import DEFAULT_NAMESPACE
from lab.queue.reading.nodes import SUBDOMAIN, meant
from lab.queue.writing import as_yaml, objects
from lab.topology import MAX_CPUS_PER_WORKER, MAX_WORKERS, TAKEN_NAMES, LabSpec, Vendor, check_lab_name

LAB_LABEL = "raylab.io/lab"
JOB_FOLDER = "job"
LONGEST_NAME = 20
GUARD = "checkpoint_guard"
"""A patch that is on in every lab but one with stock Ray."""


@dataclass(frozen=True)
class Imported:
    """A lab of the shape of a cluster."""

    kind: str
    name: str
    spec: LabSpec
    differs: tuple[str, ...]
    """What is not the same here, in words."""
    job: Job | None
    setup: Setup
    workload: Workload | None
    """What Kueue was asked for, if it was."""

    def up(self, gpu: str) -> tuple[str, ...]:
        """The command that starts such a lab, with these GPUs."""
        spec = self.spec
        settings = [flag for flag, on in (("--gcs-ft", spec.gcs_ft), ("--stock-ray", spec.stock_ray)) if on]
        sizes = ("--workers", str(spec.workers), "--cpus-per-worker", str(spec.cpus_per_worker))
        return ("labctl", "up", "--lab", spec.name, *sizes, "--gpu", gpu, *settings)

    def steps(self, folder: Path | None) -> list[tuple[str, ...]]:
        """Commands after that one: the job, and its queues; they need the folder that was written."""
        found: list[tuple[str, ...]] = []
        if self.job is not None:
            options = []
            if folder is not None and self.job.files:
                options += ["--working-dir", str(folder / JOB_FOLDER)]
            if folder is not None and self.job.runtime_env:
                options += ["--runtime-env", str(folder / "runtime_env.json")]
            found.append(("labctl", "--lab", self.spec.name, "submit", *options, "--", *self.job.command))
        if folder is not None and self.workload is not None:
            found.append(("labctl", "queue", "simulate", str(folder / "queues.yaml"), "--cycles", "1"))
        return found

    def files(self) -> dict[str, bytes]:
        """What is kept of it in a folder: path -> content."""
        found = {"lab.json": json.dumps(asdict(self.spec), indent=1, default=str).encode() + b"\n"}
        listed = list(objects(self.setup, [self.workload] if self.workload else ()))
        if listed:
            found["queues.yaml"] = as_yaml(listed).encode()
        if self.job is not None:
            found |= {f"{JOB_FOLDER}/{path}": content for path, content in self.job.files.items()}
            if self.job.runtime_env:
                found["runtime_env.json"] = json.dumps(dict(self.job.runtime_env), indent=1).encode() + b"\n"
        return found


def import_lab(
    texts: Iterable[tuple[str, str]], namespace: str = DEFAULT_NAMESPACE, chosen: str = ""
) -> Imported:
    """The lab in these texts, each with the name of its file. `chosen` names one of several clusters.

    Raises ManifestError, NotFoundError, UsageError.
    """
    manifests, wrong = read_manifests(texts, namespace)
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise ManifestError(f"{wrong[0]}{more}", wrong[0].hint)
    cluster = _choose([each for manifest in manifests for each in clusters(manifest)], chosen)
    manifest = cluster.manifest
    if any(not each.container for each in cluster.groups):
        raise ManifestError(
            f"{manifest.kind} {manifest.name}: a group has no container", "labctl lint says where"
        )
    differs: list[str] = []
    spec = _spec(cluster, differs)
    read = queue_objects(manifests, namespace)
    if read.errors:
        raise ManifestError(str(read.errors[0]), read.errors[0].hint or "labctl lint shows all")
    outer = next((m for m in manifests if m.kind == APP_WRAPPER and m.root.node is manifest.root.node), None)
    asked = outer or manifest
    workload = None
    if text(asked.labels.get(QUEUE_NAME)):
        name = asked.name if SUBDOMAIN.fullmatch(asked.name) else "imported"
        workload = as_workload(asked, needs(asked, manifests), name)
        named = text(asked.labels.get(PRIORITY_CLASS))
        value = next((each.value for each in read.setup.priority_classes if each.name == named), 0)
        workload = workload and replace(workload, priority=value)
    job = job_of(cluster, manifests, differs)
    return Imported(manifest.kind, manifest.name, spec, tuple(differs), job, read.setup, workload)


def _choose(found: Sequence[RayCluster], chosen: str) -> RayCluster:
    names = [each.manifest.name for each in found]
    if chosen:
        wanted = [each for each in found if each.manifest.name == chosen]
        if not wanted:
            hint = meant(chosen, names) or f"there are: {', '.join(names) or 'none'}"
            raise NotFoundError(
                f"--cluster {chosen}: there is no such RayCluster, RayJob or RayService", hint
            )
        return wanted[0]
    if not found:
        raise NotFoundError("there is no cluster of Ray in these files", "a RayCluster, RayJob or RayService")
    if len(found) > 1:
        raise UsageError(
            f"there are {len(found)} clusters in these files: {', '.join(names)}", "--cluster NAME"
        )
    return found[0]


# Shape


def _spec(cluster: RayCluster, differs: list[str]) -> LabSpec:
    workers = [each for each in cluster.groups[1:] if each.pods]
    if not workers:
        differs.append("it has no worker of its own: the lab has one")
        workers = list(cluster.groups[1:2])
    count = max(1, sum(each.pods for each in workers))
    if count > MAX_WORKERS:
        differs.append(f"it has {plural(count, 'worker')}, the lab {MAX_WORKERS}: the most there can be")
        count = MAX_WORKERS
    if cluster.autoscaled:
        differs.append("it grows and shrinks by itself, the lab does not")
    cpus = _same("CPUs", [_cpus(each) for each in workers], differs) or LabSpec.cpus_per_worker
    if len(workers) > 1:
        differs.append(f"its {len(workers)} groups of workers are one in the lab")
    given = cluster.value.get("gcsFaultToleranceOptions") is not None
    annotation = mapping(cluster.manifest.metadata.get("annotations")).get("ray.io/ft-enabled")
    spec = LabSpec(
        _lab_name(cluster.manifest, differs),
        workers=count,
        cpus_per_worker=min(MAX_CPUS_PER_WORKER, max(1, cpus)),
        stock_ray=_stock(cluster.groups[0]),
        gcs_ft=given or annotation == "true",
    )
    return replace(spec, gpu=gpu_plan(_vendor(workers, differs), spec))


def _lab_name(manifest: Manifest, differs: list[str]) -> str:
    name = text(manifest.labels.get(LAB_LABEL)) or manifest.name
    try:
        check_lab_name(name)
    except UsageError:
        short = re.sub(r"[^a-z0-9]+", "-", name.lower())[:LONGEST_NAME].strip("-0123456789") or "imported"
        if short in TAKEN_NAMES:
            short = f"{short}-lab"
        differs.append(f"the lab is called {short}: {name!r} is too long for a lab, or no name of one")
        return short
    return name


def _same(what: str, amounts: Sequence[int], differs: list[str]) -> int:
    """The amount of the first; a difference is told."""
    if len({*amounts}) > 1:
        differs.append(
            f"its workers differ in {what} ({', '.join(map(str, amounts))}): the lab's have {amounts[0]}"
        )
    return amounts[0] if amounts else 0


def _cpus(group: Group) -> int:
    """CPUs that Ray counts on a node of this group."""
    for value in (mapping(group.value.get("resources")).get("CPU"), group.params.get("num-cpus")):
        if (number := quantity(value)) is not None:
            return math.ceil(number)
    return math.ceil(group.amount("cpu") or 0)


def _vendor(workers: Sequence[Group], differs: list[str]) -> Vendor:
    found = []
    for group in workers:
        vendor = next((v for v, key in GPU_RESOURCES.items() if group.amount(key)), Vendor.NONE)
        amount = group.amount(GPU_RESOURCES[vendor]) if vendor in GPU_RESOURCES else None
        if amount is not None and amount > 1:
            differs.append(f"workers of {group.name} have {amount} GPUs each, the lab's have one")
        found.append(vendor)
    if len({*found}) > 1:
        differs.append("only some of its workers have such a GPU: in the lab all have")
    return next((each for each in found if each is not Vendor.NONE), Vendor.NONE)


def _stock(head: Group) -> bool:
    """True when Ray trains there without the lab's changes."""
    variables = head.env()
    off = {name.strip() for name in text(variables.get(patches.OFF_VARIABLE)).split(",")}
    return patches.RECORDER not in text(variables.get(patches.CALLBACKS_VARIABLE)) or GUARD in off
