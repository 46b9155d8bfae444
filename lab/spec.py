"""What a lab is asked to be, said in single settings: the one builder of a LabSpec, over what the lab is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lab.errors import LabDownError
from lab.runtime.base import Runtime
from lab.topology import GpuPlan, LabSpec


@dataclass(frozen=True)
class Asked:
    """Single settings of a lab. What is None, empty or false is not said.

    Raises UsageError for what no lab can be.
    """

    gpu: str | None = None
    """`nvidia`, `amd`, `simulated`, `none` or `auto`."""
    gpus: tuple[str, ...] = ()
    """Names of GPUs, in the workers' order."""
    share_gpu: bool = False
    workers: int | None = None
    cpus_per_worker: int | None = None
    ports: tuple[tuple[str, int], ...] = ()
    gcs_ft: bool = False
    stock_ray: bool = False

    def __post_init__(self) -> None:
        self.over(LabSpec())

    def over(self, usual: LabSpec) -> LabSpec:
        """`usual` with what is said, all but the GPUs."""
        return replace(
            usual,
            workers=usual.workers if self.workers is None else self.workers,
            cpus_per_worker=usual.cpus_per_worker if self.cpus_per_worker is None else self.cpus_per_worker,
            ports=self.ports,
            gcs_ft=usual.gcs_ft or self.gcs_ft,
            stock_ray=usual.stock_ray or self.stock_ray,
        )


def gpu_plan(
    choice: str, workers: int, runtime: str, *, chosen: Sequence[str] = (), share: bool = False
) -> GpuPlan:
    """Which GPU each worker of a lab on this kind of runtime gets; see lab.host.gpus.plan.

    Raises GpuError, UsageError.
    """
    from lab.host.gpus import Detector, GpuRequest, amd_gpus, nvidia_gpus, plan

    nvidia: Detector = nvidia_gpus
    amd: Detector = amd_gpus
    if runtime == "compose":
        from lab.host.gpus.docker import detectors

        nvidia, amd = detectors()
    return plan(GpuRequest(choice, tuple(chosen), share), workers, nvidia=nvidia, amd=amd)


def spec_of(runtime: Runtime, asked: Asked, plan: Callable[..., GpuPlan] = gpu_plan) -> LabSpec:
    """The lab that is asked for. What is not said stays as it is in a lab that is up, else is the default.

    `plan` is `gpu_plan`, or what stands for it. Raises GpuError, UsageError, StateError.
    """
    try:
        current: LabSpec | None = runtime.spec()
    except LabDownError:
        current = None
    spec = asked.over(current or LabSpec(runtime.lab))
    kept = current is not None and spec.workers == current.workers
    if kept and asked.gpu in (None, spec.gpu.vendor.value) and not asked.gpus and not asked.share_gpu:
        return spec
    found = plan(asked.gpu or "auto", spec.workers, runtime.kind, chosen=asked.gpus, share=asked.share_gpu)
    return replace(spec, gpu=found)
