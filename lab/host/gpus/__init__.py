"""The GPUs of this machine, and the plan that pins one to each worker.

The detectors return a `Detection` and never raise: a missing driver is an error only for a vendor that was
asked for.
"""

from __future__ import annotations

from lab.host.gpus.amd import amd_gpus
from lab.host.gpus.model import Detection, Detector, Gpu, GpuHolder, GpuRequest
from lab.host.gpus.nvidia import nvidia_gpus
from lab.host.gpus.planning import held_error, plan, sharing_note

__all__ = [
    "Detection",
    "Detector",
    "Gpu",
    "GpuHolder",
    "GpuRequest",
    "amd_gpus",
    "held_error",
    "nvidia_gpus",
    "plan",
    "sharing_note",
]
