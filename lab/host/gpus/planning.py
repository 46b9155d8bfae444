"""The plan that gives each worker a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from lab.errors import GpuError, UsageError
from lab.host.gpus.amd import amd_gpus
from lab.host.gpus.choosing import choose
from lab.host.gpus.model import (
    AUTO,
    BRANDS,
    CHOICES,
    Detection,
    Detector,
    Gpu,
    GpuHolder,
    GpuRequest,
    detection,
)
from lab.host.gpus.nvidia import nvidia_gpus
from lab.host.quantities import plural
from lab.services import worker
from lab.topology import GpuAssignment, GpuPlan, Vendor

NOBODY: Mapping[str, GpuHolder] = MappingProxyType({})


def plan(
    request: GpuRequest,
    workers: int,
    *,
    nvidia: Detector = nvidia_gpus,
    amd: Detector = amd_gpus,
    held: Mapping[str, GpuHolder] = NOBODY,
) -> GpuPlan:
    """One GPU for each of `workers` workers, and none that another lab holds (`held`: its `device` -> who).

    `auto` takes the first vendor with a GPU for every worker, else simulated ones, and fails only when GPUs
    are named. Raises UsageError for what makes no sense; GpuError when GPUs that were asked for are missing,
    held or too few.
    """
    choice, share = request.gpu, request.share_gpu
    if choice not in CHOICES:
        raise UsageError(f"--gpu {choice}: unknown", f"known: {', '.join(CHOICES)}")
    if choice in (Vendor.SIMULATED.value, Vendor.NONE.value) and (request.gpus or share):
        option = "--gpus" if request.gpus else "--share-gpu"
        raise UsageError(
            f"{option} makes no sense with --gpu {choice}", "it is about real GPUs: --gpu nvidia or --gpu amd"
        )
    detectors = {Vendor.NVIDIA: nvidia, Vendor.AMD: amd}
    if request.gpus:
        detections = {
            vendor: detect() for vendor, detect in detectors.items() if choice in (AUTO, vendor.value)
        }
        vendor, gpus = choose(request, workers, detections)
        _check_free(gpus, held)
        return _assigned(vendor, gpus, workers, "chosen with --gpus")
    free = {vendor: partial(_free, vendor, detect, held) for vendor, detect in detectors.items()}
    if choice == AUTO:
        return _auto(workers, free, share=share)
    vendor = Vendor(choice)
    if vendor is Vendor.NONE:
        return GpuPlan(vendor, reason="asked for: no GPUs")
    if vendor is Vendor.SIMULATED:
        return _simulated(workers, "asked for: one logical GPU per worker, no device behind it")
    there = free[vendor]()
    if not there.gpus or (len(there.gpus) < workers and not share):
        raise _too_few(vendor, there, workers)
    return _pinned(vendor, there, workers, "asked for")


def _free(vendor: Vendor, detect: Detector, held: Mapping[str, GpuHolder]) -> Detection:
    """The GPUs that no other lab holds; those that one does are a problem."""
    there = detect()
    gpus = [gpu for gpu in there.gpus if gpu.device not in held]
    holding = [held[gpu.device] for gpu in there.gpus if gpu.device in held]
    counted = [(holder, holding.count(holder)) for holder in dict.fromkeys(holding)]
    problems = [
        (f"{plural(number, f'{BRANDS[vendor]} GPU')} held by {holder}", holder.hint)
        for holder, number in counted
    ]
    return detection(gpus, [*problems, (there.problem, there.hint)] if there.problem else problems)


def _check_free(gpus: Sequence[Gpu], held: Mapping[str, GpuHolder]) -> None:
    for gpu in gpus:
        if holder := held.get(gpu.device):
            raise held_error(gpu.device, holder)


def held_error(device: str, holder: GpuHolder) -> GpuError:
    return GpuError(
        f"GPU {device} is held by {holder}",
        f"{holder.hint}; or name another with --gpus (`labctl gpus` lists them)",
    )


def sharing_note(made: GpuPlan) -> str:
    """The consequences for the workers of this plan that share a GPU; empty when none do."""
    if not made.shared:
        return ""
    sharing = []
    for device in made.devices:
        services = [a.service for a in made.assignments if a.device == device]
        if len(services) > 1:
            sharing.append(f"{', '.join(services)} share GPU {device}")
    return (
        f"{'; '.join(sharing)}: its memory is shared without a limit, one job can take it all; NCCL refuses"
        ' two ranks of a job on one GPU ("Duplicate GPU detected"), so such training uses Gloo'
    )


def _auto(workers: int, detectors: Mapping[Vendor, Detector], *, share: bool) -> GpuPlan:
    missing = []
    fewer: list[tuple[Vendor, Detection]] = []
    for vendor, detect in detectors.items():
        detection = detect()
        if len(detection.gpus) >= workers:
            return _pinned(vendor, detection, workers, "auto")
        if detection.gpus:
            fewer.append((vendor, detection))
            missing.append(
                f"{_counted(vendor, detection)} for {workers} workers"
                f"{detection.problem and f'; {detection.problem}'}"
                f" (`--gpu {vendor.value} --workers {len(detection.gpus)}` uses what there is,"
                " --share-gpu lets workers share)"
            )
        else:
            missing.append(detection.problem or f"no {BRANDS[vendor]} GPU")
    if share and fewer:
        return _pinned(*fewer[0], workers, "auto")
    return _simulated(workers, f"auto: {'; '.join(missing)}")


def _pinned(vendor: Vendor, detection: Detection, workers: int, why: str) -> GpuPlan:
    # Larger ones first: beside a card for training there is often a small one for the screen.
    best = sorted(detection.gpus, key=lambda gpu: -gpu.memory_bytes)[:workers]
    best.sort(key=detection.gpus.index)
    return _assigned(vendor, best, workers, f"{why}: {_counted(vendor, detection)} found")


def _assigned(vendor: Vendor, gpus: Sequence[Gpu], workers: int, reason: str) -> GpuPlan:
    """The workers take these in turn; where there are fewer, they share."""
    assignments = tuple(_assignment(worker(i), gpus[i % len(gpus)]) for i in range(workers))
    return GpuPlan(vendor, assignments, reason)


def _assignment(service: str, gpu: Gpu) -> GpuAssignment:
    if gpu.vendor is Vendor.NVIDIA:  # a container's device files are the business of NVIDIA's toolkit
        return GpuAssignment(service, gpu.uuid, gpu.label)
    return GpuAssignment(service, str(gpu.index), gpu.label, gpu.device_nodes, gpu.groups)


def _counted(vendor: Vendor, detection: Detection) -> str:
    return plural(len(detection.gpus), f"{BRANDS[vendor]} GPU")


def _simulated(workers: int, reason: str) -> GpuPlan:
    return GpuPlan(Vendor.SIMULATED, tuple(GpuAssignment(worker(i)) for i in range(workers)), reason)


def _too_few(vendor: Vendor, detection: Detection, workers: int) -> GpuError:
    other = "or use --gpu simulated, which needs none"
    if not detection.gpus:
        cause = detection.problem or f"this machine has no {BRANDS[vendor]} GPU"
        return GpuError(
            f"--gpu {vendor.value}: {cause}", f"{detection.hint}; {other}" if detection.hint else other
        )
    detail = f"; {detection.problem}" if detection.problem else ""
    return GpuError(
        f"--gpu {vendor.value}: {_counted(vendor, detection)} for {workers} workers{detail}",
        f"start as many workers as there are GPUs: --workers {len(detection.gpus)}; let workers share them:"
        f" --share-gpu; {other}",
    )
