"""JSON documents of --json, in the shapes of `lab.api.shown`: a public contract, which the tests pin.

Data that have the fields of their shape already are printed as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from lab.api.base import plain
from lab.cli import format

if TYPE_CHECKING:
    from lab.api import shown, shown_here
    from lab.api.health import DeviceView
    from lab.cluster.allocation import TopView, Waiting
    from lab.cluster.api import Node
    from lab.cluster.checkpoints import CheckpointInfo
    from lab.cluster.explain import Explanation
    from lab.cluster.jobs import Job
    from lab.cluster.placement import Placement
    from lab.cluster.recipes import Recipe
    from lab.evidence.receipt import FaultRecord
    from lab.faults import FaultKind
    from lab.flows.doctor.pinning import WorkerView
    from lab.flows.images import ImageNeed
    from lab.flows.recovery.heal import Healed
    from lab.host.gpus import Gpu, GpuHolder
    from lab.people.links import Link
    from lab.people.progress import Progress
    from lab.people.registry import Person
    from lab.topology import GpuAssignment, GpuPlan, LabStatus, ServiceStatus


def service(status: ServiceStatus) -> shown.ShownService:
    """One service."""
    return {
        "service": status.service, "state": status.state.value, "detail": status.detail,
        "url": format.without_secrets(status.url), "pid": status.pid, "container": status.container,
    }  # fmt: skip


def image(need: ImageNeed) -> shown_here.ShownImage:
    """One image that a lab needs. Its size in bytes, 0 when it is absent."""
    return {
        "name": need.name, "role": need.role, "variable": need.variable, "present": need.present,
        "out_of_date": need.stale, "local_name": need.local_name, "size": need.size, "get": need.how,
    }  # fmt: skip


def node(item: Node) -> shown.ShownNode:
    """One Ray node. Times are seconds since the epoch, resources as Ray counts them."""
    return {
        "service": item.service, "node_id": item.node_id, "alive": item.alive, "head": item.head,
        "resources": dict(item.resources), "started_at": item.started_at, "ended_at": item.ended_at,
        "reason": item.reason,
    }  # fmt: skip


def job(item: Job) -> shown.ShownJob:
    """One job. Times are seconds since the epoch."""
    return {
        "submission_id": item.submission_id, "name": item.metadata.get("job_name", ""),
        "status": item.status, "earlier": item.earlier, "recipe": item.recipe,
        "entrypoint": item.entrypoint, "message": item.message, "started_at": item.started_at,
        "ended_at": item.ended_at, "exit_code": item.exit_code, "num_cpus": item.num_cpus,
        "num_gpus": item.num_gpus,
    }  # fmt: skip


def described_job(
    item: Job,
    waits: Waiting | None = None,
    where: Placement | None = None,
    lost: Sequence[str] = (),
    problem: str = "",
    why: Explanation | None = None,
    last_lines: Sequence[str] = (),
) -> shown.DescribedJob:
    """One job, whether it waits, where it runs, and the attempts that it lost without a recorded fault."""
    return {
        **job(item),
        "waiting": waiting(waits),
        "placement": placement(where) if where else None,
        "lost_attempts": lost,
        "problem": problem,
        "explanation": explanation(why),
        "last_lines": last_lines,
    }


def explanation(item: Explanation | None) -> shown.ShownExplanation | None:
    """Cause of a failed job, or null; `line` is the evidence."""
    if item is None:
        return None
    cause = item.cause
    return {
        "cause": cause.name, "title": item.title, "todo": cause.todo, "docs": cause.docs, "line": item.line
    }  # fmt: skip


def lab(
    status: LabStatus,
    nodes: Iterable[Node] = (),
    jobs: Iterable[Job] = (),
    problems: Iterable[str] = (),
    health: Iterable[DeviceView] = (),
) -> shown.ShownLab:
    """The whole lab. `problems` lists the questions that got no answer, `health` is of Health.view."""
    return {
        "name": status.name,
        "runtime": status.runtime,
        "up": status.up,
        "healthy": status.healthy,
        "gpu": {
            "vendor": status.gpu.vendor.value,
            "reason": status.gpu.reason,
            "assignments": [_assignment(gpu) for gpu in status.gpu.assignments],
        },
        "services": [service(s) for s in status.services],
        "nodes": [node(n) for n in nodes],
        "running_jobs": [job(j) for j in jobs],
        "health": [_device(device) for device in health],
        "notes": list(status.notes),
        "problems": list(problems),
    }


def _device(device: DeviceView) -> shown.ShownDevice:
    return {
        "node": device.node, "device": device.device, "state": device.state, "reason": device.reason,
        "message": device.message, "since": device.since,
    }  # fmt: skip


def _assignment(gpu: GpuAssignment) -> shown.ShownAssignment:
    return {"service": gpu.service, "gpu": gpu.gpu, "name": gpu.name}


def waiting(item: Waiting | None) -> shown.ShownWaiting | None:
    """Reason why a job, or a part of it, waits; null when it does not."""
    if item is None:
        return None
    return {
        "kind": item.kind, "reason": item.reason, "what": item.what, "demand": dict(item.demand),
        "count": item.count, "short": list(item.short), "holders": plain(item.holders),
    }  # fmt: skip


def top(view: TopView) -> shown.ShownLoad:
    """Nodes, what runs there, and who waits. Memory in bytes, 100 percent of CPU is one core."""
    nodes = [plain(n) | {"health": view.health.get(n.service, ("", ""))[0]} for n in view.nodes]
    return {"at": view.at, "nodes": nodes, "waiting": plain(view.waiting), "notes": list(view.notes)}


def placement(item: Placement) -> shown.ShownPlacement:
    """Placement of a job: services of the driver and of each Ray Train rank."""
    return {
        "driver": item.driver, "workers": [{"rank": rank, "service": where} for rank, where in item.workers]
    }  # fmt: skip


def checkpoint(item: CheckpointInfo) -> shown.ShownCheckpoint:
    """One checkpoint. Size in bytes, time in seconds since the epoch."""
    return {
        "uri": item.uri, "in_store": item.in_store, "run": item.run, "job": item.job,
        "name": item.name, "epoch": item.epoch,
        "files": len(item.files), "size": item.size, "modified": format.epoch_seconds(item.modified),
        "sha256": item.sha256,
    }  # fmt: skip


def recipe(item: Recipe) -> shown.ShownRecipe:
    """One recipe and its `-p` parameters."""
    return {
        "name": item.name,
        "summary": item.summary,
        "parameters": plain(item.parameters),
        "fault_tolerance": [*item.ways],
    }


def fault_kind(item: FaultKind) -> shown.ShownKind:
    """One kind of fault."""
    return {
        "name": item.name,
        "summary": item.summary,
        "hits": item.scope.value,
        "parameters": [
            {
                "name": parameter.name,
                "unit": parameter.unit,
                "default": parameter.default,
                "minimum": parameter.low,
                "maximum": parameter.high,
                "required": parameter.required,
                "help": parameter.summary,
            }
            for parameter in item.parameters
        ],
        "runtimes": list(item.runtimes),
        "expected": {"outcome": item.expected.value, "text": item.expected.text},
        "revert": item.revert,
    }


def fault(item: FaultRecord) -> shown.ShownFault:
    """A fault that was injected. Times are seconds since the epoch."""
    return {"kind": item.kind, "target": item.target, "at": item.at, "reverted_at": item.reverted_at}


def healed(item: Healed) -> shown.ShownRevert:
    """A fault that was left behind; `problem` is null when it was undone."""
    return {
        "kind": item.kind, "target": item.target, "job": item.job, "at": item.at,
        "problem": item.problem or None,
    }  # fmt: skip


def gpu(item: Gpu, holder: GpuHolder | None) -> shown_here.ShownGpu:
    """A GPU or MIG slice of this machine. Memory in bytes, 0 when unknown; `lab` is null when it is free."""
    return {
        "vendor": item.vendor.value, "index": item.index, "uuid": item.uuid, "name": item.name,
        "memory": item.memory_bytes, "device_nodes": list(item.device_nodes),
        "lab": holder.lab if holder else None,
    }  # fmt: skip


def gpu_plan(plan: GpuPlan) -> shown_here.ShownPlan:
    """GPU of each worker."""
    return {
        "vendor": plan.vendor.value,
        "reason": plan.reason,
        "shared": plan.shared,
        "assignments": [
            {**_assignment(gpu), "device_nodes": list(gpu.device_nodes)} for gpu in plan.assignments
        ],
    }


def worker_view(view: WorkerView) -> shown_here.ShownWorker:
    """GPUs that a worker of a running lab sees. `ray_gpus` is null without a living node."""
    return {
        "service": view.service,
        "planned": view.planned.gpu if view.planned else None,
        "sees": [{"gpu": seen.gpu, "name": seen.name} for seen in view.seen],
        "ray_gpus": view.ray_gpus,
        "problem": view.problem,
    }


# A class


def invited(
    gateway: str, made: Sequence[tuple[str, str, str]], *, hidden: bool
) -> shown_here.ShownInvitations:
    """The class's address, and people; tokens only where they are in no file."""
    rows: list[shown_here.Invited] = []
    for name, role, token in made:
        row: shown_here.Invited = {"name": name, "role": role}
        rows.append(row if hidden else {**row, "token": token})
    return {"gateway": gateway, "people": rows}


def links(made: Sequence[Link], *, hidden: bool) -> shown_here.ShownLinks:
    """Sign-in links; the links themselves only where they are in no file."""
    rows: list[shown_here.ShownLink] = []
    for one in made:
        row: shown_here.ShownLink = {"name": one.name, "role": one.role.value, "until": one.until}
        rows.append(row if hidden else {**row, "link": one.address})
    return {"links": rows}


def persons(people: Iterable[Person], jobs: Mapping[str, int]) -> shown_here.ShownPeople:
    """The people of a class. Times are seconds since the epoch; `jobs` has the unfinished ones of each."""
    return {
        "people": [
            {
                "name": one.name, "role": one.role.value, "added_at": one.added_at, "token_at": one.token_at,
                "leaving": one.leaving, "unfinished_jobs": jobs.get(one.name, 0),
            }
            for one in people
        ]
    }  # fmt: skip


def progress(kept: Progress) -> shown_here.ShownProgress:
    """The lessons of the people of a class."""
    return {
        "collected_at": kept.collected_at or None,
        "lessons": [*kept.lessons],
        "people": plain(kept.people),
    }
