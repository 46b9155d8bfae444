"""Computes DAXPY and DGEMM on a GPU and compares with results that are known exactly.

    CUDA_VISIBLE_DEVICES=GPU-... python -m raylab_health.gpu_compute

prints {"wrong": [...], "bytes": N}. All values are small whole numbers: every sum is exact in double
precision, and one wrong bit shows.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from raylab_health.model import NOT_HERE

SHARE = 0.5
"""Part of the GPU's free memory that DAXPY fills."""

SIDE = 2048
"""Rows of the matrices."""


def compute(torch: Any, place: str, free: int) -> dict[str, Any]:
    """Run both on the device `place`; `free` is its free memory in bytes."""
    wrong = []
    length = max(1024, int(free * SHARE) // 8 // 2)
    x = torch.arange(length, dtype=torch.float64, device=place).remainder_(1024)
    y = torch.full((length,), 3.0, dtype=torch.float64, device=place)
    y.add_(x, alpha=2.0)  # y = 2 x + 3
    y.sub_(3.0).div_(2.0).sub_(x)
    if int(torch.count_nonzero(y)):
        wrong.append("DAXPY")
    del x, y
    rows = torch.arange(SIDE, dtype=torch.float64, device=place).remainder_(7).reshape(SIDE, 1)
    columns = torch.arange(SIDE, dtype=torch.float64, device=place).remainder_(5).reshape(1, SIDE)
    product = rows.expand(SIDE, SIDE) @ columns.expand(SIDE, SIDE)
    if not torch.equal(product, rows * columns * SIDE):
        wrong.append("DGEMM")
    return {"wrong": wrong, "bytes": length * 16}


def main() -> int:
    """Compute on the first GPU of this process."""
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed")
        return NOT_HERE
    if not torch.cuda.is_available():
        print(f"PyTorch {torch.__version__} cannot use a GPU here")
        return NOT_HERE
    print(json.dumps(compute(torch, "cuda:0", torch.cuda.mem_get_info()[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
