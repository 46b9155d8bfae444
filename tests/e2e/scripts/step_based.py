"""Counts steps, not epochs; saves and reports every 25 of them, and resumes at the step it had reached.

It waits before the last 25 until the file that is named is there.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from typing import Any

import ray.train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

EVERY = 25


def train_func(config: dict[str, Any]) -> None:
    step, total = 0, 0.0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder, open(os.path.join(folder, "state.json")) as stream:
            state = json.load(stream)
        step, total = state["step"], state["total"]
    while step < config["steps"]:
        while step == config["steps"] - EVERY and not os.path.exists(config["may_end"]):
            time.sleep(0.1)
        time.sleep(0.012)  # stands for a step's work
        step += 1
        total += 1 / step
        if step % EVERY == 0:
            with tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, "state.json"), "w") as stream:
                    json.dump({"step": step, "total": total}, stream)
                ray.train.report({"step": step, "total": total}, checkpoint=Checkpoint.from_directory(folder))


if __name__ == "__main__":
    TorchTrainer(
        train_func,
        train_loop_config={"steps": 18 * EVERY, "may_end": sys.argv[1]},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(storage_path="s3://ray", failure_config=FailureConfig(max_failures=2)),
    ).fit()
