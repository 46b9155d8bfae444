"""Measures the bandwidth from the host's memory to a GPU's, with CUDA's driver API.

    CUDA_VISIBLE_DEVICES=GPU-... python -m raylab_health.pcie_copy

prints GB/s of the best of several copies from pinned memory.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from ctypes import CDLL, byref, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

from raylab_node.gpus import cuda_error

BYTES = 64 * 1024**2
TRIES = 8


def measure(cuda: Any) -> float:
    """GB/s of the best of TRIES copies from pinned memory to GPU 0 of this process. Raises OSError."""

    def must(code: int) -> None:
        if code:
            raise OSError(cuda_error(cuda, code))

    device, context = c_int(), c_void_p()
    host, place = c_void_p(), c_uint64()
    must(cuda.cuInit(0))
    must(cuda.cuDeviceGet(byref(device), 0))
    must(cuda.cuCtxCreate_v2(byref(context), 0, device))
    must(cuda.cuMemAllocHost_v2(byref(host), c_size_t(BYTES)))
    must(cuda.cuMemAlloc_v2(byref(place), c_size_t(BYTES)))
    best = float("inf")
    for _ in range(TRIES):
        begin = time.perf_counter()
        must(cuda.cuMemcpyHtoD_v2(place, host, c_size_t(BYTES)))
        must(cuda.cuCtxSynchronize())
        best = min(best, time.perf_counter() - begin)
    must(cuda.cuCtxDestroy_v2(context))
    return BYTES / best / 1e9


def main(load: Callable[[], Any] = lambda: CDLL("libcuda.so.1")) -> int:
    """Print what was measured, or the reason why nothing was."""
    try:
        print(measure(load()))
    except (OSError, AttributeError) as error:  # there is no driver, or it lacks a function
        print(f"CUDA's driver: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
