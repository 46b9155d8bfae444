"""Ranks keep the memory that a step frees: RAY_TRAIN_CALLBACKS=...,raylab_recovery.kept_memory.KeptMemory

A training step takes and frees the same activations and gradients each time. glibc's malloc gives large
blocks back to the kernel as they are freed, and the next step gets them anew, page by page, each with a
fault: in the lab's `digits` up to a fifth of a step, more on one rank than on the other by chance. Here a
rank keeps what it once had. The settings are glibc's (mallopt(3)); without glibc, or where the environment
sets them, nothing changes.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping

from ray.train.v2._internal.execution.callback import WorkerCallback

from raylab_ledger.rank import quietly
from raylab_switches import active

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's malloc.h."""

KEPT_BYTES = 256 * 1024**2
"""Free memory at the end of a heap from which on it is given back."""

BLOCK_BYTES = 32 * 1024**2
"""Blocks from this size on are still mapped, and given back, one by one. glibc's own limit for its threshold
(DEFAULT_MMAP_THRESHOLD_MAX), to which it comes by itself once such a block was freed."""

OWN = ("MALLOC_", "GLIBC_TUNABLES")
"""Beginnings of variables by which somebody has set it for a job or a node."""


class KeptMemory(WorkerCallback):
    """Changes how a rank's process holds memory; nothing else."""

    @quietly
    def after_init_train_context(self) -> None:
        if not active("kept_memory"):
            return
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            keep(mallopt, os.environ)


def keep(mallopt: Callable[[int, int], int], environ: Mapping[str, str]) -> None:
    """Let malloc keep freed memory, unless this environment sets it."""
    if any(name.startswith(OWN) for name in environ):
        return
    mallopt(MMAP_THRESHOLD, BLOCK_BYTES)
    mallopt(TRIM_THRESHOLD, KEPT_BYTES)
