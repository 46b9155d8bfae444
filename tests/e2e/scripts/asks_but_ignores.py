"""Asks for its checkpoint and loads the weights, but starts counting at epoch 1 again.

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
    model = torch.nn.Linear(4, 1)
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            model.load_state_dict(torch.load(os.path.join(folder, "model.pt")))
        print("Restored from checkpoint")
    for epoch in range(1, config["epochs"] + 1):
        time.sleep(0.3)  # stands for an epoch's work
        while epoch == config["epochs"] and not os.path.exists(config["may_end"]):
            time.sleep(0.1)
        with tempfile.TemporaryDirectory() as folder:
            torch.save(model.state_dict(), os.path.join(folder, "model.pt"))
            ray.train.report({"epoch": epoch}, checkpoint=Checkpoint.from_directory(folder))


if __name__ == "__main__":
    TorchTrainer(
        train_func,
        train_loop_config={"epochs": 18, "may_end": sys.argv[1]},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(storage_path="s3://ray", failure_config=FailureConfig(max_failures=2)),
    ).fit()
