"""Compares the GPU that each worker of a running lab really sees with the one it is pinned to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lab.cluster.api import Node
from lab.errors import LabError, PinningError
from lab.host.reading import parse_json
from lab.runtime.base import NodeControl
from lab.topology import GpuAssignment, GpuPlan, Vendor

ASK_SECONDS = 30.0
"""Deadline for a worker's answer. CUDA's driver starts in a second, on a large machine in ten."""

GPU = "GPU"
"""Ray's name of the resource."""


@dataclass(frozen=True)
class SeenGpu:
    """A GPU as a process of a worker sees it. `gpu` is a UUID without prefix, or AMD's render node."""

    gpu: str
    name: str = ""


@dataclass(frozen=True)
class SeenGpus:
    """Answer of a worker: its GPUs, or the reason why there are none."""

    gpus: tuple[SeenGpu, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class WorkerView:
    """One worker: the GPU planned for it, the GPUs it sees, those that Ray counts, and the error in that."""

    service: str
    planned: GpuAssignment | None
    seen: tuple[SeenGpu, ...] = ()
    ray_gpus: float | None = None
    """GPUs that Ray counts on its node; None when it has no living one."""
    problem: str = ""
    """Empty when all of this fits together."""


def look(lab: NodeControl, nodes: Iterable[Node]) -> tuple[WorkerView, ...]:
    """Ask every worker of a lab that is up. `nodes` are Ray's. Raises LabDownError."""
    spec = lab.spec()
    answers = {service: _ask(lab, service, spec.gpu.vendor) for service in spec.worker_services}
    counted = {node.service: node.resources.get(GPU, 0.0) for node in nodes if node.alive}
    return compare(spec.gpu, answers, counted)


def compare(
    plan: GpuPlan, answers: Mapping[str, SeenGpus], counted: Mapping[str, float]
) -> tuple[WorkerView, ...]:
    """Every worker of `answers`, judged; `counted` has Ray's GPUs of each service that is alive."""
    views: list[WorkerView] = []
    for service, answer in answers.items():
        view = WorkerView(service, plan.gpu_of(service), answer.gpus, counted.get(service))
        others = views if not plan.shared else []
        problems = [_devices(view, answer, plan, others), _ray(view)]
        views.append(replace(view, problem="; ".join(filter(None, problems))))
    return tuple(views)


def check(views: Iterable[WorkerView]) -> None:
    """Compare the workers with their plan. Raises PinningError when one is not what it was planned to be."""
    wrong = [view for view in views if view.problem]
    if wrong:
        raise PinningError(
            "; ".join(f"{view.service} {view.problem}" for view in wrong),
            f"`labctl restart {wrong[0].service}` gives it its GPU back (`systemctl daemon-reload` takes GPUs"
            " from running containers); else `labctl down` and `labctl up`",
        )


def _ask(lab: NodeControl, service: str, vendor: Vendor) -> SeenGpus:
    if vendor not in (Vendor.NVIDIA, Vendor.AMD):
        return SeenGpus()
    argv = ("python", "-m", "raylab_node.gpus", vendor.value)
    try:
        done = lab.execute(service, argv, timeout=ASK_SECONDS)
    except LabError as error:
        return SeenGpus(problem=error.message)
    return parse(done.output) if done.exit_code == 0 else SeenGpus(problem=_last(done.output))


def parse(output: str) -> SeenGpus:
    """The answer of raylab_node.gpus, the last line that can be one: the driver may print warnings."""
    line = next((line for line in reversed(output.splitlines()) if line.startswith("{")), "")
    try:
        document = parse_json(line)
        gpus = tuple(SeenGpu(str(gpu["gpu"]), str(gpu["name"])) for gpu in document["gpus"])
        return SeenGpus(gpus, str(document["problem"]))
    except (ValueError, KeyError, TypeError):
        return SeenGpus(problem=f"its answer is not understood: {_last(output)[:200]!r}")


def _last(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no answer"


def _devices(view: WorkerView, answer: SeenGpus, plan: GpuPlan, others: Iterable[WorkerView]) -> str:
    """Error in the devices of a worker; empty when there is none, or there are no devices to see."""
    if plan.vendor not in (Vendor.NVIDIA, Vendor.AMD) or view.planned is None:
        return ""
    names = [gpu.gpu for gpu in view.seen]
    if not names:
        return f"sees no GPU ({answer.problem})" if answer.problem else "sees no GPU"
    for other in others:
        same = [name for name in names if name in {gpu.gpu for gpu in other.seen}]
        if same:
            return f"sees GPU {same[0]}, which {other.service} sees too"
    if len(names) > 1:
        return f"sees {len(names)} GPUs ({', '.join(names)}) and is pinned to one"
    if names[0].lower() != identity(view.planned, plan.vendor):
        return f"sees GPU {names[0]} and is pinned to {view.planned.gpu}"
    return ""


def identity(planned: GpuAssignment, vendor: Vendor) -> str:
    """A planned GPU under the name that a worker calls it by (see SeenGpu)."""
    if vendor is Vendor.AMD:
        return planned.device.lower()
    return planned.gpu.partition("-")[2].lower()


def _ray(view: WorkerView) -> str:
    """Error in Ray's count of a worker's GPUs, or empty."""
    if view.ray_gpus is None:
        return "has no living node in Ray"
    planned = 1.0 if view.planned else 0.0
    return "" if view.ray_gpus == planned else f"has {view.ray_gpus:g} GPUs for Ray, {planned:g} planned"
