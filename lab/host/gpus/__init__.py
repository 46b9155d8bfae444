"""The GPUs of this machine, and the plan that pins one to each worker.

The detectors answer with a `Detection` and never raise: that there is no driver is a fact, and only an error
when that vendor was asked for.
"""

from __future__ import annotations

from lab.host.gpus.amd import amd_gpus
from lab.host.gpus.model import Detection, Detector, Gpu
from lab.host.gpus.nvidia import nvidia_gpus
from lab.host.gpus.planning import AUTO, CHOICES, plan, sharing_note

__all__ = [
    "AUTO",
    "CHOICES",
    "Detection",
    "Detector",
    "Gpu",
    "amd_gpus",
    "nvidia_gpus",
    "plan",
    "sharing_note",
]
