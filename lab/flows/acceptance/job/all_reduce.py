"""Sums a tensor over the GPUs of all workers, compares with the known sum, and prints the bandwidth.

python all_reduce.py 2
"""

from __future__ import annotations

import sys
import time

import ray.train
import ray.train.torch
import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

MIB = 256
TIMES = 10


def reduce() -> tuple[str, float]:
    """Be one of the ranks. Returns the backend and the seconds that one sum takes."""
    context = ray.train.get_context()
    rank, ranks = context.get_world_rank(), context.get_world_size()
    device = ray.train.torch.get_device()

    def total() -> None:
        torch.distributed.all_reduce(tensor)
        if device.type == "cuda":
            torch.cuda.synchronize()

    tensor = torch.full((MIB * 2**20 // 4,), float(rank + 1), device=device)
    total()
    if not torch.all(tensor == ranks * (ranks + 1) / 2):  # small whole numbers: every sum is exact
        raise ArithmeticError(f"the sum of {ranks} ranks is wrong on rank {rank}")
    tensor.zero_()
    begin = time.perf_counter()
    for _ in range(TIMES):
        total()
    return torch.distributed.get_backend(), (time.perf_counter() - begin) / TIMES


if __name__ == "__main__":
    ranks = int(sys.argv[1])
    trainer = TorchTrainer(
        reduce,
        scaling_config=ScalingConfig(num_workers=ranks, use_gpu=True),
        run_config=RunConfig(storage_path="s3://ray"),
    )
    returned = trainer.fit().return_value
    assert returned is not None
    backend, seconds = returned
    speed = MIB * 2**20 / seconds / 1e9
    sys.stdout.write(f"{backend} sums {MIB} MiB of {ranks} ranks right, at {speed:.1f} GB/s\n")
