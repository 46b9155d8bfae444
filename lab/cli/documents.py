"""JSON documents of --json. These shapes are a public contract; the tests pin them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.cli import format

if TYPE_CHECKING:
    from pathlib import Path

    from lab.api.health import DeviceView
    from lab.cluster.alerts import Alert, Silence
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
    from lab.flows.kubernetes.lint import Report
    from lab.flows.kubernetes.manifests import Finding
    from lab.flows.lessons.model import Lesson
    from lab.flows.recovery.heal import Healed
    from lab.flows.report import ReportData, Written
    from lab.host.gpus import Gpu, Holder
    from lab.topology import GpuPlan, LabStatus, ServiceStatus

Document = dict[str, Any]


def fields(item: object, names: str) -> Document:
    """The named fields of `item`, as plain JSON; `key=field` where the document has another name for one."""
    pairs = ((name.partition("=")[0], name.rpartition("=")[2]) for name in names.split())
    return {key: _plain(getattr(item, field)) for key, field in pairs}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def service(status: ServiceStatus) -> Document:
    """One service."""
    found = fields(status, "service state detail url pid container")
    return {**found, "url": format.without_secrets(status.url)}


def image(need: ImageNeed) -> Document:
    """One image that a lab needs. Its size in bytes, 0 when it is absent."""
    return fields(need, "name role variable present out_of_date=stale local_name size get=how")


def dataset(found: Dataset) -> Document:
    """One data set. Size in bytes; `counts` says how many pictures each class of each split has."""
    return fields(found, "name folder pictures counts bytes source sha256 synthetic missing")


def alert(item: Alert) -> Document:
    """One alert that fires. `since` in seconds since the epoch."""
    return fields(item, "name severity since labels summary silenced")


def silence(item: Silence) -> Document:
    """One silence. `until` in seconds since the epoch."""
    return fields(item, "id alert until")


def node(item: Node) -> Document:
    """One Ray node. Times are seconds since the epoch, resources as Ray counts them."""
    return fields(item, "service node_id alive head resources started_at ended_at reason")


def job(item: Job) -> Document:
    """One job. Times are seconds since the epoch."""
    name = {"submission_id": item.submission_id, "name": item.metadata.get("job_name", "")}
    others = "status earlier recipe entrypoint message started_at ended_at exit_code num_cpus num_gpus"
    return {**name, **fields(item, others)}


def explanation(item: Explanation | None) -> Document | None:
    """Cause of a failed job, or null; `line` is the evidence."""
    return {**fields(item.cause, "cause=name title todo docs"), "line": item.line} if item else None


def lab(
    status: LabStatus,
    nodes: Iterable[Node] = (),
    jobs: Iterable[Job] = (),
    problems: Iterable[str] = (),
    health: Iterable[DeviceView] = (),
) -> Document:
    """The whole lab. `problems` lists the questions that got no answer, `health` is of Health.view."""
    assignments = [fields(each, "service gpu name") for each in status.gpu.assignments]
    return {
        **fields(status, "name runtime up healthy"),
        "gpu": {**fields(status.gpu, "vendor reason"), "assignments": assignments},
        "services": [service(s) for s in status.services],
        "nodes": [node(n) for n in nodes],
        "running_jobs": [job(j) for j in jobs],
        "health": [fields(each, "node device state reason message since") for each in health],
        "notes": list(status.notes),
        "problems": list(problems),
    }


def holding(item: Holding) -> Document:
    """Resources of a service that a part of a job holds. Memory in bytes."""
    return fields(item, "job service what resources")


def waiting(item: Waiting | None) -> Document | None:
    """Reason why a job, or a part of it, waits; null when it does not."""
    if item is None:
        return None
    holders = [holding(each) for each in item.holders]
    return {**fields(item, "kind reason what demand count short"), "holders": holders}


def top(view: TopView) -> Document:
    """Nodes, what runs there, and who waits. Memory in bytes, 100 percent of CPU is one core."""
    return {
        "at": view.at,
        "nodes": [
            {
                **fields(n, "service cpu_percent cores memory_used memory_limit shares_host"),
                "gpus": [dataclasses.asdict(g) for g in n.gpus],
                **fields(n, "offers held"),
                "health": view.health.get(n.service, ("", ""))[0],
                "holdings": [holding(h) for h in n.holdings],
            }
            for n in view.nodes
        ],
        "waiting": [{"job": w.job, **(waiting(w) or {})} for w in view.waiting],
        "notes": list(view.notes),
    }


def placement(item: Placement) -> Document:
    """Placement of a job: services of the driver and of each Ray Train rank."""
    workers = [{"rank": rank, "service": where} for rank, where in item.workers]
    return {"driver": item.driver, "workers": workers}


def checkpoint(item: CheckpointInfo) -> Document:
    """One checkpoint. Size in bytes, time in seconds since the epoch."""
    modified = format.epoch_seconds(item.modified)
    found = fields(item, "uri run job name epoch files size modified sha256")
    return {**found, "files": len(item.files), "modified": modified}


def recipe(item: Recipe) -> Document:
    """One recipe and its `-p` parameters."""
    parameters = [fields(each, "name type default minimum maximum help") for each in item.parameters]
    return {**fields(item, "name summary"), "parameters": parameters, "fault_tolerance": [*item.ways]}


def fault_kind(item: FaultKind) -> Document:
    """One kind of fault."""
    names = "name unit default minimum=low maximum=high required help=summary"
    return {
        **fields(item, "name summary hits=scope"),
        "parameters": [fields(each, names) for each in item.parameters],
        "runtimes": list(item.runtimes),
        "expected": {"outcome": item.expected.value, "text": item.expected.text},
        "revert": item.revert,
    }


def fault(item: FaultRecord) -> Document:
    """A fault that was injected. Times are seconds since the epoch."""
    return fields(item, "kind target at reverted_at")


def healed(item: Healed) -> Document:
    """A fault that was left behind; `problem` is null when it was undone."""
    return {**fields(item, "kind target job at"), "problem": item.problem or None}


def gpu(item: Gpu, holder: Holder | None) -> Document:
    """A GPU or MIG slice of this machine. Memory in bytes, 0 when unknown; `lab` is null when it is free."""
    found = fields(item, "vendor index uuid name memory=memory_bytes device_nodes")
    return {**found, "lab": holder.lab if holder else None}


def gpu_plan(plan: GpuPlan) -> Document:
    """GPU of each worker."""
    assignments = [fields(each, "service gpu name device_nodes") for each in plan.assignments]
    return {**fields(plan, "vendor reason shared"), "assignments": assignments}


def worker_view(view: WorkerView) -> Document:
    """GPUs that a worker of a running lab sees. `ray_gpus` is null without a living node."""
    return {
        "service": view.service,
        "planned": view.planned.gpu if view.planned else None,
        "sees": [fields(seen, "gpu name") for seen in view.seen],
        **fields(view, "ray_gpus problem"),
    }


def check(item: Check) -> Document:
    """One answer of `doctor`."""
    return fields(item, "name outcome detail hint")


def lesson(item: Lesson, result: Document | None) -> Document:
    """One lesson. `passed` and `at` (seconds since the epoch) are null where it was never checked."""
    checked = {key: result[key] if result else None for key in ("passed", "at")}
    return {**fields(item, "number name title notebook minutes needs"), **checked}


def report(data: ReportData, written: Written) -> Document:
    """A report that was written."""
    return {
        "job": data.job,
        "verdict": data.verdict or None,
        **fields(written, "folder page pictures"),
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
