"""JSON documents of --json. These shapes are a public contract; the tests pin them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from lab.cli import format

if TYPE_CHECKING:
    from pathlib import Path

    from lab.cluster.allocation import Holding, TopView, Waiting
    from lab.cluster.api import Node
    from lab.cluster.explain import Explanation
    from lab.cluster.jobs import Job
    from lab.cluster.placement import Placement
    from lab.cluster.recipes import Recipe
    from lab.datasets import Dataset
    from lab.evidence.checkpoints import CheckpointInfo
    from lab.evidence.receipt import FaultRecord
    from lab.faults import FaultKind
    from lab.flows.doctor import Check
    from lab.flows.doctor.pinning import WorkerView
    from lab.flows.images import ImageNeed
    from lab.flows.kubernetes.imported import Imported
    from lab.flows.kubernetes.lint import Report
    from lab.flows.kubernetes.manifests import Finding
    from lab.flows.lessons.model import Lesson
    from lab.flows.recovery.heal import Healed
    from lab.flows.report import ReportData, Written
    from lab.host.gpus import Gpu
    from lab.topology import GpuPlan, LabStatus, ServiceStatus

Document = dict[str, Any]


def service(status: ServiceStatus) -> Document:
    """One service."""
    return {
        "service": status.service,
        "state": status.state.value,
        "detail": status.detail,
        "url": format.without_secrets(status.url),
        "pid": status.pid,
        "container": status.container,
    }


def image(need: ImageNeed) -> Document:
    """One image that a lab needs. Its size in bytes, 0 when it is absent."""
    return {
        "name": need.name,
        "role": need.role,
        "variable": need.variable,
        "present": need.present,
        "out_of_date": need.stale,
        "local_name": need.local_name,
        "size": need.size,
        "get": need.how,
    }


def dataset(found: Dataset) -> Document:
    """One data set. Size in bytes; `counts` says how many pictures each class of each split has."""
    return {
        "name": found.name,
        "folder": str(found.folder),
        "pictures": found.pictures,
        "counts": {split: dict(classes) for split, classes in found.counts.items()},
        "bytes": found.bytes,
        "source": found.source,
        "sha256": found.sha256,
        "synthetic": found.synthetic,
        "missing": found.missing,
    }


def node(item: Node) -> Document:
    """One Ray node. Times are seconds since the epoch, resources as Ray counts them."""
    return {
        "service": item.service,
        "node_id": item.node_id,
        "alive": item.alive,
        "head": item.head,
        "resources": dict(item.resources),
        "started_at": item.started_at,
        "ended_at": item.ended_at,
        "reason": item.reason,
    }


def job(item: Job) -> Document:
    """One job. Times are seconds since the epoch."""
    return {
        "submission_id": item.submission_id,
        "name": item.metadata.get("job_name", ""),
        "status": item.status,
        "earlier": item.earlier,
        "recipe": item.recipe,
        "entrypoint": item.entrypoint,
        "message": item.message,
        "started_at": item.started_at,
        "ended_at": item.ended_at,
        "exit_code": item.exit_code,
        "num_cpus": item.num_cpus,
        "num_gpus": item.num_gpus,
    }


def explanation(item: Explanation | None) -> Document | None:
    """Cause of a failed job, or null; `line` is the evidence."""
    if item is None:
        return None
    cause = item.cause
    return {
        "cause": cause.name,
        "title": cause.title,
        "todo": cause.todo,
        "docs": cause.docs,
        "line": item.line,
    }


def lab(
    status: LabStatus, nodes: Iterable[Node] = (), jobs: Iterable[Job] = (), problems: Iterable[str] = ()
) -> Document:
    """The whole lab. `problems` lists the questions that got no answer."""
    return {
        "name": status.name,
        "runtime": status.runtime,
        "up": status.up,
        "healthy": status.healthy,
        "gpu": {
            "vendor": status.gpu.vendor.value,
            "reason": status.gpu.reason,
            "assignments": [
                {"service": a.service, "gpu": a.gpu, "name": a.name} for a in status.gpu.assignments
            ],
        },
        "services": [service(s) for s in status.services],
        "nodes": [node(n) for n in nodes],
        "running_jobs": [job(j) for j in jobs],
        "notes": list(status.notes),
        "problems": list(problems),
    }


def holding(item: Holding) -> Document:
    """Resources of a service that a part of a job holds. Memory in bytes."""
    return {
        "job": item.job,
        "service": item.service,
        "what": item.what,
        "resources": dict(item.resources),
    }


def waiting(item: Waiting | None) -> Document | None:
    """Reason why a job, or a part of it, waits; null when it does not."""
    if item is None:
        return None
    return {
        "kind": item.kind,
        "reason": item.reason,
        "what": item.what,
        "demand": dict(item.demand),
        "count": item.count,
        "short": list(item.short),
        "holders": [holding(h) for h in item.holders],
    }


def top(view: TopView) -> Document:
    """Nodes, what runs there, and who waits. Memory in bytes, 100 percent of CPU is one core."""
    return {
        "at": view.at,
        "nodes": [
            {
                "service": n.service,
                "cpu_percent": n.cpu_percent,
                "cores": n.cores,
                "memory_used": n.memory_used,
                "memory_limit": n.memory_limit,
                "shares_host": n.shares_host,
                "gpus": [dataclasses.asdict(g) for g in n.gpus],
                "offers": dict(n.offers),
                "held": dict(n.held),
                "holdings": [holding(h) for h in n.holdings],
            }
            for n in view.nodes
        ],
        "waiting": [{"job": w.job, **(waiting(w) or {})} for w in view.waiting],
        "notes": list(view.notes),
    }


def placement(item: Placement) -> Document:
    """Placement of a job: services of the driver and of each Ray Train rank."""
    return {
        "driver": item.driver,
        "workers": [{"rank": rank, "service": where} for rank, where in item.workers],
    }


def checkpoint(item: CheckpointInfo) -> Document:
    """One checkpoint. Size in bytes, time in seconds since the epoch."""
    return {
        "uri": item.uri,
        "run": item.run,
        "job": item.job,
        "name": item.name,
        "epoch": item.epoch,
        "files": len(item.files),
        "size": item.size,
        "modified": format.epoch_seconds(item.modified),
        "sha256": item.sha256,
    }


def recipe(item: Recipe) -> Document:
    """One recipe and its `-p` parameters."""
    return {
        "name": item.name,
        "summary": item.summary,
        "parameters": [
            {
                "name": p.name,
                "type": p.type,
                "default": p.default,
                "minimum": p.minimum,
                "maximum": p.maximum,
                "help": p.help,
            }
            for p in item.parameters
        ],
    }


def fault_kind(item: FaultKind) -> Document:
    """One kind of fault."""
    return {
        "name": item.name,
        "summary": item.summary,
        "hits": item.scope.value,
        "parameters": [
            {
                "name": p.name,
                "unit": p.unit,
                "default": p.default,
                "minimum": p.low,
                "maximum": p.high,
                "required": p.required,
                "help": p.summary,
            }
            for p in item.parameters
        ],
        "runtimes": list(item.runtimes),
        "expected": {"outcome": item.expected.value, "text": item.expected.text},
        "revert": item.revert,
    }


def fault(item: FaultRecord) -> Document:
    """A fault that was injected. Times are seconds since the epoch."""
    return {"kind": item.kind, "target": item.target, "at": item.at, "reverted_at": item.reverted_at}


def healed(item: Healed) -> Document:
    """A fault that was left behind; `problem` is null when it was undone."""
    return {
        "kind": item.kind,
        "target": item.target,
        "job": item.job,
        "at": item.at,
        "problem": item.problem or None,
    }


def gpu(item: Gpu) -> Document:
    """One GPU or MIG slice of this machine. Memory in bytes, 0 when unknown."""
    return {
        "vendor": item.vendor.value,
        "index": item.index,
        "uuid": item.uuid,
        "name": item.name,
        "memory": item.memory_bytes,
        "device_nodes": list(item.device_nodes),
    }


def gpu_plan(plan: GpuPlan) -> Document:
    """GPU of each worker."""
    return {
        "vendor": plan.vendor.value,
        "reason": plan.reason,
        "shared": plan.shared,
        "assignments": [
            {"service": a.service, "gpu": a.gpu, "name": a.name, "device_nodes": list(a.device_nodes)}
            for a in plan.assignments
        ],
    }


def worker_view(view: WorkerView) -> Document:
    """GPUs that a worker of a running lab sees. `ray_gpus` is null without a living node."""
    return {
        "service": view.service,
        "planned": view.planned.gpu if view.planned else None,
        "sees": [{"gpu": seen.gpu, "name": seen.name} for seen in view.seen],
        "ray_gpus": view.ray_gpus,
        "problem": view.problem,
    }


def check(item: Check) -> Document:
    """One answer of `doctor`."""
    return {"name": item.name, "outcome": item.outcome, "detail": item.detail, "hint": item.hint}


def lesson(item: Lesson, result: Document | None) -> Document:
    """One lesson. `passed` and `at` (seconds since the epoch) are null where it was never checked."""
    return {
        "number": item.number,
        "name": item.name,
        "title": item.title,
        "notebook": item.notebook,
        "minutes": item.minutes,
        "needs": list(item.needs),
        "passed": result["passed"] if result else None,
        "at": result["at"] if result else None,
    }


def report(data: ReportData, written: Written) -> Document:
    """A report that was written."""
    return {
        "job": data.job,
        "verdict": data.verdict or None,
        "folder": str(written.folder),
        "page": str(written.page),
        "pictures": [str(picture) for picture in written.pictures],
        "control": data.control_job or None,
        "missing": list(written.missing),
    }


# Manifests


def finding(found: Finding) -> Document:
    """One thing found in a manifest."""
    return dataclasses.asdict(found)


def linted(report: Report) -> Document:
    """Findings on a set of manifests."""
    return {
        "schema": "lint/1",
        "good": not report.errors,
        "objects": dict(report.objects),
        "findings": [finding(each) for each in report.findings],
        "not_asked": list(report.not_asked),
    }


def exported(folder: Path, files: tuple[str, ...], report: Report) -> Document:
    """A folder of manifests, with what the checks said."""
    return {
        "schema": "export/1",
        "folder": str(folder),
        "files": sorted(files),
        "objects": dict(report.objects),
        "findings": [finding(each) for each in report.findings],
        "not_asked": list(report.not_asked),
    }


def imported(
    found: Imported, up: tuple[str, ...], steps: list[tuple[str, ...]], folder: Path | None
) -> Document:
    """A lab of the shape of a cluster, and the commands that start it."""
    return {
        "schema": "import/1",
        "kind": found.kind,
        "cluster": found.name,
        "lab": dataclasses.asdict(found.spec),
        "differs": list(found.differs),
        "up": list(up),
        "then": [list(each) for each in steps],
        "folder": None if folder is None else str(folder),
    }
