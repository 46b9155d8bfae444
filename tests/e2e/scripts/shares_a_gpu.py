"""Two ranks with half a GPU each. With `nccl` they say what NCCL does when both are on one."""

from __future__ import annotations

import sys

import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, get_device

REFUSED = (
    "NCCL error in: ProcessGroupNCCL.cpp:3690, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL "
    "version 2.27.5\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\n"
    "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000"
)


def train(config: dict[str, str]) -> None:
    """Be one of the ranks."""
    if config["as"] == "nccl":
        raise torch.distributed.DistBackendError(REFUSED)
    torch.nn.Linear(2, 2).to(get_device())


if __name__ == "__main__":
    TorchTrainer(
        train,
        train_loop_config={"as": sys.argv[1]},
        scaling_config=ScalingConfig(
            num_workers=2,
            use_gpu=True,
            resources_per_worker={"CPU": 1, "GPU": 0.5},
            placement_strategy="PACK",
        ),
        run_config=RunConfig(storage_path="s3://ray"),
    ).fit()
