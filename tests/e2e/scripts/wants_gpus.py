"""Two ranks that ask for a GPU each, written for a machine that has them."""

from __future__ import annotations

from typing import Any

import ray.train
import ray.train.torch
import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def train_func(config: dict[str, Any]) -> None:
    torch.manual_seed(ray.train.get_context().get_world_rank())
    device = ray.train.torch.get_device()
    model = ray.train.torch.prepare_model(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(16, 4, device=device)
    for epoch in range(1, config["epochs"] + 1):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ones = torch.ones(1, device=device)
        torch.distributed.all_reduce(ones)
        ray.train.report(
            {
                "epoch": epoch,
                "loss": loss.item(),
                "ranks": int(ones.item()),
                "backend": torch.distributed.get_backend(),
                "device": str(device),
            }
        )


if __name__ == "__main__":
    TorchTrainer(
        train_func,
        train_loop_config={"epochs": 2},
        scaling_config=ScalingConfig(num_workers=2, use_gpu=True),
        run_config=RunConfig(storage_path="s3://ray"),
    ).fit()
