"""The smallest script whose workers go on when one of them is lost: torch and torchft under Ray Train.

labctl submit --working-dir workspace/examples -- python survives.py
"""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import ray.train
import torch
from ray.train import Checkpoint, CheckpointUploadMode, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from ray.train.v2.torch.torchft_config import TorchftConfig
from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo


def train_func(config: dict[str, Any]) -> None:
    rank = ray.train.get_context().get_world_rank()
    model = torch.nn.Linear(1, 1)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)

    def state() -> dict[str, Any]:
        return {"model": model.state_dict(), "optimizer": adam.state_dict()}

    def load(given: dict[str, Any]) -> None:
        model.load_state_dict(given["model"])
        adam.load_state_dict(given["optimizer"])

    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=1)),
        min_replica_size=1,
        state_dict=state,
        load_state_dict=load,
        replica_id=f"rank{rank}",
        rank=0,
        world_size=1,
    )
    checkpoint = ray.train.get_checkpoint()  # for the day on which all workers are lost
    if checkpoint:
        with checkpoint.as_directory() as folder:
            saved = torch.load(Path(folder, "state.pt"))
        load(saved)
        manager.load_state_dict(saved["manager"])
    net, optimizer = DistributedDataParallel(manager, model), Optimizer(manager, adam)
    while (step := manager.current_step()) < config["epochs"] * config["steps"]:
        x = torch.rand(256, 1)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x), 3 * x + 1)
        loss.backward()
        optimizer.step()
        epoch, rest = divmod(manager.current_step(), config["steps"])
        if manager.current_step() > step and rest == 0 and manager.participating_rank() == 0:
            folder = tempfile.mkdtemp()
            torch.save({**state(), "manager": manager.state_dict()}, Path(folder, "state.pt"))
            ray.train.report(
                {"epoch": epoch, "loss": loss.item()},
                checkpoint=Checkpoint.from_directory(folder),
                checkpoint_upload_mode=CheckpointUploadMode.ASYNC,
                delete_local_checkpoint_after_upload=True,
            )
    manager.shutdown()


if __name__ == "__main__":
    TorchTrainer(
        train_func,
        train_loop_config={"epochs": 20, "steps": 100},
        torch_config=TorchftConfig(lighthouse_kwargs={"min_replicas": 1}, backend="gloo"),
        scaling_config=ScalingConfig(num_workers=2, placement_strategy="SPREAD"),
        run_config=RunConfig(storage_path="s3://ray", failure_config=FailureConfig(max_failures=-1)),
    ).fit()
