"""The GPUs of this machine, and the plan that pins one to each worker.

The detectors answer with a `Detection` and never raise: that there is no driver is a fact, and only an error
when that vendor was asked for.
"""

from __future__ import annotations

from lab.errors import GpuError, UsageError
from lab.gpus.amd import amd_gpus
from lab.gpus.model import Detection, Detector, Gpu
from lab.gpus.nvidia import nvidia_gpus
from lab.topology import GpuAssignment, GpuPlan, Vendor, worker

__all__ = ["AUTO", "CHOICES", "Detection", "Detector", "Gpu", "amd_gpus", "nvidia_gpus", "plan"]

AUTO = "auto"
CHOICES = ("nvidia", "amd", "simulated", "none", AUTO)
"""What `--gpu` takes."""


def plan(choice: str, workers: int, *, nvidia: Detector = nvidia_gpus, amd: Detector = amd_gpus) -> GpuPlan:
    """One GPU for each of `workers` workers, as `choice` (one of CHOICES) asks.

    `auto` takes the first vendor with a GPU for every worker, else simulated ones, and never fails.
    Raises UsageError for an unknown choice; GpuError when GPUs that were asked for are missing or too few.
    """
    if choice not in CHOICES:
        raise UsageError(f"--gpu {choice}: unknown", f"known: {', '.join(CHOICES)}")
    if choice == AUTO:
        return _auto(workers, nvidia, amd)
    vendor = Vendor(choice)
    if vendor is Vendor.NONE:
        return GpuPlan(vendor, reason="asked for: no GPUs")
    if vendor is Vendor.SIMULATED:
        return _simulated(workers, "asked for: one logical GPU per worker, no device behind it")
    found = nvidia() if vendor is Vendor.NVIDIA else amd()
    if len(found.gpus) < workers:
        raise _too_few(vendor, found, workers)
    return _pinned(vendor, found, workers, "asked for")


def _auto(workers: int, nvidia: Detector, amd: Detector) -> GpuPlan:
    missing = []
    for vendor, detect in ((Vendor.NVIDIA, nvidia), (Vendor.AMD, amd)):
        found = detect()
        if len(found.gpus) >= workers:
            return _pinned(vendor, found, workers, "auto")
        if found.gpus:
            missing.append(
                f"{_count(vendor, len(found.gpus))} for {workers} workers"
                f" (`--gpu {vendor.value} --workers {len(found.gpus)}` uses what there is)"
            )
        else:
            missing.append(
                f"no {_brand(vendor)} GPU ({found.problem})" if found.problem else f"no {_brand(vendor)} GPU"
            )
    return _simulated(workers, f"auto: {'; '.join(missing)}")


def _pinned(vendor: Vendor, found: Detection, workers: int, why: str) -> GpuPlan:
    # Larger ones first: beside a card for training there is often a small one for the screen.
    best = sorted(found.gpus, key=lambda gpu: -gpu.memory_bytes)[:workers]
    best.sort(key=found.gpus.index)
    assignments = tuple(
        GpuAssignment(worker(i), gpu.uuid if vendor is Vendor.NVIDIA else str(gpu.index), gpu.label)
        for i, gpu in enumerate(best)
    )
    return GpuPlan(vendor, assignments, f"{why}: {_count(vendor, len(found.gpus))} found")


def _simulated(workers: int, reason: str) -> GpuPlan:
    return GpuPlan(Vendor.SIMULATED, tuple(GpuAssignment(worker(i)) for i in range(workers)), reason)


def _too_few(vendor: Vendor, found: Detection, workers: int) -> GpuError:
    other = "or use --gpu simulated, which needs none"
    if not found.gpus:
        cause = found.problem or f"this machine has no {_brand(vendor)} GPU"
        return GpuError(f"--gpu {vendor.value}: {cause}", f"{found.hint}; {other}" if found.hint else other)
    detail = f"; {found.problem}" if found.problem else ""
    return GpuError(
        f"--gpu {vendor.value}: {_count(vendor, len(found.gpus))} for {workers} workers{detail}",
        f"start as many workers as there are GPUs: --workers {len(found.gpus)}; {other}",
    )


def _brand(vendor: Vendor) -> str:
    return {Vendor.NVIDIA: "NVIDIA", Vendor.AMD: "AMD"}[vendor]


def _count(vendor: Vendor, number: int) -> str:
    return f"{number} {_brand(vendor)} GPU{'' if number == 1 else 's'}"
