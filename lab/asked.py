"""What a lab is asked to be, said in single settings: the LabSpec of them, over what the lab is already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lab.errors import LabDownError
from lab.runtime.base import Runtime
from lab.topology import GpuPlan, LabSpec


def gpu_plan(
    choice: str, workers: int, runtime: str, *, chosen: Sequence[str] = (), share: bool = False
) -> GpuPlan:
    """Which GPU each worker of a lab on this kind of runtime gets; see lab.gpus.plan.

    Raises GpuError, UsageError.
    """
    from lab.gpus import Detector, amd_gpus, nvidia_gpus, plan

    nvidia: Detector = nvidia_gpus
    amd: Detector = amd_gpus
    if runtime == "compose":
        from lab.runtime.compose.gpuhost import detectors

        nvidia, amd = detectors()
    return plan(choice, workers, chosen=chosen, share=share, nvidia=nvidia, amd=amd)


def spec_of(
    runtime: Runtime,
    *,
    gpu: str | None = None,
    gpus: Sequence[str] = (),
    share_gpu: bool = False,
    workers: int | None = None,
    cpus_per_worker: int | None = None,
    ports: Mapping[str, int] | None = None,
) -> LabSpec:
    """The lab of these settings. What is None stays as it is in a lab that is up, else is the default.

    Raises GpuError, UsageError.
    """
    current = _current(runtime)
    usual = current or LabSpec(runtime.lab)
    count = usual.workers if workers is None else workers
    settings = LabSpec(
        runtime.lab,
        workers=count,
        cpus_per_worker=usual.cpus_per_worker if cpus_per_worker is None else cpus_per_worker,
        ports=tuple((ports or {}).items()),
        stock_ray=usual.stock_ray,
        gcs_ft=usual.gcs_ft,
    )
    kept = current is not None and count == current.workers and gpu in (None, current.gpu.vendor.value)
    if current is not None and kept and not gpus and not share_gpu:
        plan = current.gpu
    else:
        plan = gpu_plan(gpu or "auto", count, runtime.kind, chosen=gpus, share=share_gpu)
    return replace(settings, gpu=plan)


def _current(runtime: Runtime) -> LabSpec | None:
    try:
        return runtime.spec()
    except LabDownError:
        return None
