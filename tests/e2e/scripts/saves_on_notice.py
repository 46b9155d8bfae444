"""Saves one early epoch, and each one once Ray Train says that its node is to be taken away. No failure is
allowed: only preemptions are."""

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

EARLY = 3


def train_func(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 4)
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
        time.sleep(0.5)  # stands for the rest of an epoch's work
        loss = torch.nn.functional.mse_loss(model(x), x.sum(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        notice, checkpoint = ray.train.get_preemption_info(), None
        with tempfile.TemporaryDirectory() as folder:
            if notice or epoch == EARLY:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
                torch.save(state, os.path.join(folder, "state.pt"))
                checkpoint = Checkpoint.from_directory(folder)
            ray.train.report({"epoch": epoch, "loss": loss.item()}, checkpoint=checkpoint)


if __name__ == "__main__":
    failures = FailureConfig(max_failures=0, max_preemption_failures=int(sys.argv[1]))
    TorchTrainer(
        train_func,
        train_loop_config={"epochs": 120},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(storage_path="s3://ray", failure_config=failures),
    ).fit()
