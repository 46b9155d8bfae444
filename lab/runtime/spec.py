"""The one builder of a LabSpec: from single settings, over what the lab is while it is up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lab.errors import LabDownError, RefusedError
from lab.runtime import leases
from lab.runtime.base import LabView
from lab.topology import GpuPlan, LabSpec, LabStatus
from lab.topology.address import Address

if TYPE_CHECKING:
    from lab.host.gpus import Detection, GpuHolder


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Single settings of a lab. What is None, empty or false was left out.

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
    queued_only: bool = False
    plain_names: bool = False
    classroom: bool = False
    address: Address | None = None
    hub: bool = False

    def __post_init__(self) -> None:
        self.over(LabSpec())

    def over(self, usual: LabSpec) -> LabSpec:
        """`usual` with these settings, all but the GPUs."""
        return replace(
            usual,
            workers=usual.workers if self.workers is None else self.workers,
            cpus_per_worker=usual.cpus_per_worker if self.cpus_per_worker is None else self.cpus_per_worker,
            ports=self.ports,
            gcs_ft=usual.gcs_ft or self.gcs_ft,
            stock_ray=usual.stock_ray or self.stock_ray,
            queued_only=usual.queued_only or self.queued_only,
            plain_names=usual.plain_names or self.plain_names,
            classroom=usual.classroom or self.classroom,
            address=self.address or usual.address,
            hub=usual.hub or self.hub,
        )


def gpu_plan(
    choice: str,
    workers: int,
    runtime: str,
    *,
    chosen: Sequence[str] = (),
    share: bool = False,
    held: Mapping[str, GpuHolder] | None = None,
) -> GpuPlan:
    """Plan the GPU of each worker of a lab on this kind of runtime; see lab.host.gpus.plan.

    Raises GpuError, UsageError.
    """
    from lab.host.gpus import GpuRequest, amd_gpus, nvidia_gpus, plan
    from lab.host.gpus.docker import detectors

    nvidia, amd = detectors() if runtime == "compose" else (nvidia_gpus, amd_gpus)
    request = GpuRequest(choice, tuple(chosen), share)
    return plan(request, workers, nvidia=nvidia, amd=amd, held=held or {})


def gpus_here(runtime: str) -> tuple[Detection, Detection]:
    """GPUs of this machine, NVIDIA's and AMD's, with what keeps a lab on this kind of runtime from them."""
    from lab.host.gpus import amd_gpus, nvidia_gpus
    from lab.host.gpus.docker import listed

    return listed() if runtime == "compose" else (nvidia_gpus(), amd_gpus())


def spec_of(lab: LabView, asked: Asked) -> LabSpec:
    """Build the spec of a lab. What was left out stays as it is in a lab that is up, else is the default.

    Raises GpuError, UsageError, StateError.
    """
    try:
        current: LabSpec | None = lab.spec()
    except LabDownError:
        current = None
    spec = asked.over(current or LabSpec(lab.lab))
    kept = current is not None and spec.workers == current.workers
    if kept and asked.gpu in (None, spec.gpu.vendor.value) and not asked.gpus and not asked.share_gpu:
        return spec
    planned = gpu_plan(
        asked.gpu or "auto",
        spec.workers,
        lab.kind,
        chosen=asked.gpus,
        share=asked.share_gpu,
        held=leases.held_by_others(lab),
    )
    return replace(spec, gpu=planned)


def up_already(lab: LabView, spec: LabSpec) -> LabStatus:
    """Leave a lab that nobody here can start as it is, and return its status.

    Raises RefusedError where it is up with other settings, UnsupportedError where not all of it runs.
    """
    status = lab.status()
    if not status.healthy:
        raise lab.refusal("start what does not run", "up")
    current = lab.spec()
    wanted = (spec.workers, spec.cpus_per_worker, spec.gpu.vendor)
    if wanted != (current.workers, current.cpus_per_worker, current.gpu.vendor):
        raise RefusedError(
            f"lab {lab.lab} is up with other settings ({current.settings})",
            f"keep them, or {lab.advice(['down', 'up'], '')}",
        )
    return status
