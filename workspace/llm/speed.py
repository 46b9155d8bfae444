"""Tokens per second, and MFU: the share of the machine's peak that the model's own operations make use of."""

from __future__ import annotations

import os
import shutil
import sysconfig
import time
from pathlib import Path

import torch

PEAK_TFLOPS = {
    "H100 PCIe": 756, "H100 NVL": 835, "H100": 989, "H200": 989, "GH200": 989, "B200": 2250, "A100": 312,
    "A40": 150, "A30": 165, "A10": 125, "L40S": 362, "L40": 181, "L4": 121, "RTX 4090": 165, "RTX 3090": 71,
    "MI300X": 1307, "MI250X": 383, "MI210": 181,
}  # fmt: skip
"""Dense bf16 operations a second of GPUs, in 10**12, as their vendors state them."""


def peak_of(name: str) -> float | None:
    """Peak operations a second of a GPU by its name; None for one that the table does not know."""
    known = (gpu for gpu in sorted(PEAK_TFLOPS, key=len, reverse=True) if gpu in name)
    return next((PEAK_TFLOPS[gpu] * 1e12 for gpu in known), None)


def measured_peak(device: torch.device, dtype: torch.dtype, size: int = 1024, rounds: int = 5) -> float:
    """Operations a second of the fastest of some products of square matrices, on the threads of torch."""
    a = torch.randn(size, size, device=device, dtype=dtype)

    def seconds() -> float:
        wait(device)
        began = time.perf_counter()
        a @ a
        wait(device)
        return time.perf_counter() - began

    seconds()
    return 2 * size**3 / min(seconds() for _ in range(rounds))


def wait(device: torch.device) -> None:
    """Wait until a GPU has done what it was given, so that a clock means something."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak(device: torch.device) -> tuple[float, str]:
    """Peak operations a second of one rank, and where the number is from."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        known = peak_of(name)
        if known is not None:
            return known, f"{name}, bf16, by its vendor"
        return measured_peak(device, torch.bfloat16, 8192), f"{name}, bf16, a measured product of matrices"
    rate = measured_peak(device, torch.float32)
    return rate, f"float32 on {torch.get_num_threads()} thread(s), a measured product of matrices"


def compiles(asked: str, gpu: bool) -> bool:
    """Tell whether the model goes through torch.compile: `asked` is on, off, or auto, which is on for GPUs.

    What that makes for a GPU is built by a C compiler with Python's headers: auto does without where they are
    missing, and says so.
    """
    if asked != "auto" or not gpu:
        return asked == "on"
    compiler = os.environ.get("CC") or any(shutil.which(name) for name in ("gcc", "clang"))
    if compiler and Path(sysconfig.get_path("include"), "Python.h").is_file():
        return True
    print("not compiled (torch.compile): there is no C compiler with Python's headers here", flush=True)
    return False
