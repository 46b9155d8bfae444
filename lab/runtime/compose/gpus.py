"""A GPU plan as Compose files, variables of their env file, and what a generated override has to add.

compose/gpu-*.yaml pin `ray-worker-0` and `ray-worker-1` by variables; the override has the other workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from lab.services import HEAD, JUPYTER, worker
from lab.topology import GpuAssignment, GpuPlan, Vendor
from lab.version import __version__

FILES: Mapping[Vendor, str] = {
    Vendor.NVIDIA: "gpu-nvidia.yaml",
    Vendor.AMD: "gpu-amd.yaml",
    Vendor.SIMULATED: "gpu-simulated.yaml",
}
"""The file of compose/ that adds a kind of GPU to lab.yaml."""

VARIANTS: Mapping[Vendor, str] = {Vendor.NVIDIA: "cuda", Vendor.AMD: "rocm"}
"""The build of PyTorch in the image of a lab with these GPUs; `cpu` for the others."""

WORKERS_IN_FILES = 2
"""Workers that lab.yaml has; the override adds the others."""

UNUSED = "unused"
"""Value of a required variable of a worker that is not started."""

USUAL_VIDEO_GROUPS = (44, 39)
"""Id of the group `video` on Debian and Ubuntu, and on Red Hat's systems."""

SHARED: Mapping[str, str] = {"RAYLAB_GPU_SHARED": "1"}
"""Variable that tells the probe that NCCL will not do."""

NVIDIA_CAPABILITIES = "compute,utility"
"""The parts of NVIDIA's driver that a worker gets: CUDA, and NVML with nvidia-smi."""


class ServiceOverride(TypedDict, total=False):
    """What the override says of a service, in Compose's words."""

    extends: dict[str, str]
    profiles: list[str]
    hostname: str
    container_name: str
    command: list[str]
    environment: dict[str, str]
    image: str
    deploy: dict[str, dict[str, dict[str, list[dict[str, object]]]]]
    devices: list[str]
    group_add: list[str]


class Override(TypedDict, total=False):
    """The Compose file that the lab makes where those of compose/ do not suffice."""

    services: dict[str, ServiceOverride]


@dataclass(frozen=True)
class GpuFragment:
    """The additions of a GPU plan to a lab's Compose project."""

    files: tuple[str, ...] = ()
    """Files of compose/, after lab.yaml and before the override."""
    env: dict[str, str] = field(default_factory=dict)
    """Variables of the env file."""
    override: Override = field(default_factory=Override)
    """Image, devices, groups and environment, to be merged into what the override says
    of these services. The command stays the override's: it needs `--num-gpus` as `gpus_per_worker` says."""
    gpus_per_worker: int = 0
    """GPUs that each worker offers to Ray."""


def compose_gpu(plan: GpuPlan, workers: int) -> GpuFragment:
    """The additions of `plan` to the project of a lab with so many workers."""
    if plan.vendor is Vendor.NONE:
        return GpuFragment()
    services: dict[str, ServiceOverride] = {}
    if plan.shared:  # Ray Train's controller, which chooses between NCCL and Gloo, runs beside the driver
        services = {service: {"environment": dict(SHARED)} for service in (HEAD, JUPYTER)}
    for index in range(workers):
        assignment = plan.gpu_of(worker(index))
        service = _service(plan, assignment, pinned_by_file=index < WORKERS_IN_FILES)
        if service:
            services[worker(index)] = service
    return GpuFragment(
        files=(FILES[plan.vendor],),
        env=_env(plan),
        override={"services": services} if services else {},
        gpus_per_worker=1,
    )


def image(vendor: Vendor) -> str:
    """The image of nodes and Jupyter, as the files in compose/ write it."""
    return f"${{LAB_IMAGE:-raylab/ray:{__version__}-{VARIANTS.get(vendor, 'cpu')}}}"


def _env(plan: GpuPlan) -> dict[str, str]:
    """Variables of the workers that the files know; Compose wants them also for one that is not started."""
    env: dict[str, str] = {}
    for index in range(WORKERS_IN_FILES):
        assignment = plan.gpu_of(worker(index))
        if plan.vendor is Vendor.NVIDIA:
            env[f"LAB_WORKER_{index}_GPU"] = assignment.gpu if assignment else UNUSED
        elif plan.vendor is Vendor.AMD:
            nodes = assignment.device_nodes if assignment else ()
            env[f"LAB_WORKER_{index}_RENDER"] = next((node for node in nodes if "render" in node), UNUSED)
    if plan.vendor is Vendor.AMD:
        env.update(_groups(plan))
    return env


def _groups(plan: GpuPlan) -> dict[str, str]:
    """The two groups of gpu-amd.yaml. Compose refuses a list that has one twice."""
    owners = [group for a in plan.assignments for group in a.groups]
    if not owners:
        return {}
    render = owners[-1]
    video = next((group for group in (*owners, *USUAL_VIDEO_GROUPS) if group != render), render)
    return {"LAB_VIDEO_GID": str(video), "LAB_RENDER_GID": str(render)}


def _service(plan: GpuPlan, assignment: GpuAssignment | None, *, pinned_by_file: bool) -> ServiceOverride:
    environment: dict[str, str] = dict(SHARED) if plan.shared else {}
    if pinned_by_file or assignment is None:
        return {"environment": environment} if environment else {}
    environment["RAYLAB_GPU"] = plan.vendor.value
    service: ServiceOverride = {"environment": environment}
    if plan.vendor in VARIANTS:
        service["image"] = image(plan.vendor)
    if plan.vendor is Vendor.NVIDIA:
        environment["NVIDIA_DRIVER_CAPABILITIES"] = NVIDIA_CAPABILITIES
        device: dict[str, object] = {
            "driver": "nvidia",
            "device_ids": [assignment.gpu],
            "capabilities": ["gpu"],
        }
        service["deploy"] = {"resources": {"reservations": {"devices": [device]}}}
    elif plan.vendor is Vendor.AMD:
        service["devices"] = [f"{node}:{node}" for node in assignment.device_nodes]
        service["group_add"] = [str(group) for group in dict.fromkeys(assignment.groups)]
    return service
