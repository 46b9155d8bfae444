"""A plain torch loop that resumes as it should: model, optimizer and epoch come from the checkpoint.

It waits before its last epoch until the file that is named is there.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from typing import Any

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def train_func(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    y = x.sum(dim=1, keepdim=True)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    first = 1
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"] + 1
    for epoch in range(first, config["epochs"] + 1):
        time.sleep(0.3)  # stands for the rest of an epoch's work
        while epoch == config["epochs"] and not os.path.exists(config["may_end"]):
            time.sleep(0.1)
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            torch.save(state, os.path.join(folder, "state.pt"))
            ray.train.report(
                {"epoch": epoch, "loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder)
            )


if __name__ == "__main__":
    TorchTrainer(
        train_func,
        train_loop_config={"epochs": 18, "may_end": sys.argv[1]},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(storage_path="s3://ray", failure_config=FailureConfig(max_failures=2)),
    ).fit()
