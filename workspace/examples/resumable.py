"""The smallest script that survives the loss of a worker: torch under Ray Train, no Lightning.

labctl submit --working-dir workspace/examples -- python resumable.py
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def train_func(config: dict[str, Any]) -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    first = 1
    checkpoint = ray.train.get_checkpoint()  # None on the first attempt
    if checkpoint:
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"] + 1
    for epoch in range(first, config["epochs"] + 1):
        for _ in range(config["steps"]):
            x = torch.rand(256, 1)
            loss = torch.nn.functional.mse_loss(model(x), 3 * x + 1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            torch.save(state, os.path.join(folder, "state.pt"))
            metrics = {"epoch": epoch, "loss": loss.item()}
            ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder))


if __name__ == "__main__":
    TorchTrainer(
        train_func,
        train_loop_config={"epochs": 40, "steps": 2000},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(storage_path="s3://ray", failure_config=FailureConfig(max_failures=3)),
    ).fit()
