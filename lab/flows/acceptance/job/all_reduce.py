"""Sums a tensor over two GPUs with NCCL, compares it with the sum that is known, and prints the bandwidth."""

from __future__ import annotations

import sys
import time

import ray.train
import torch
from ray.train.torch import TorchConfig, TorchTrainer

MIB = 256
TIMES = 10


def reduce() -> None:
    """Be one of two ranks. Every value is a small whole number, so every sum is exact."""
    rank = ray.train.get_context().get_world_rank()
    tensor = torch.full((MIB * 2**20 // 4,), float(rank + 1), device=ray.train.torch.get_device())
    torch.distributed.all_reduce(tensor)
    assert torch.all(tensor == 3.0), "the sum is wrong"
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(TIMES):
        torch.distributed.all_reduce(tensor)
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - begin) / TIMES
    ray.train.report({"gbps": MIB * 2**20 / seconds / 1e9})


if __name__ == "__main__":
    scaling = ray.train.ScalingConfig(num_workers=2, use_gpu=True)
    result = TorchTrainer(reduce, torch_config=TorchConfig(backend="nccl"), scaling_config=scaling).fit()
    assert result.metrics is not None
    sys.stdout.write(f"NCCL sums {MIB} MiB of two GPUs right, at {result.metrics['gbps']:.1f} GB/s\n")
