"""Pieces of the scripts that train with PyTorch: a small network, its data, an epoch, a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ray.train
import torch
from ray.train import Checkpoint


def network(seed: int = 0) -> torch.nn.Module:
    """A new network, which begins with the same weights each time."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))


def batches(seed: int = 0) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Four batches of eight samples, the same in each epoch."""
    random = torch.Generator().manual_seed(100 + seed)
    inputs = torch.randn(4, 8, 8, generator=random)
    return [(x, x.sum(dim=1, keepdim=True)) for x in inputs]


def one_epoch(net: Any, optimizer: Any, seed: int = 0) -> float:
    """Train for an epoch; returns the last loss."""
    loss = torch.zeros(())
    for x, y in batches(seed):
        loss = torch.nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def save(folder: str, epoch: int, **parts: Any) -> Checkpoint:
    """Write the state of these parts, and the epoch, into a folder."""
    torch.save({name: part.state_dict() for name, part in parts.items()}, Path(folder) / "state.pt")
    (Path(folder) / "epoch.json").write_text(json.dumps(epoch))
    return Checkpoint.from_directory(folder)


def load(folder: str, **parts: Any) -> int:
    """Take the state of these parts from a folder; returns the epoch in it."""
    state = torch.load(Path(folder) / "state.pt", weights_only=False)
    for name, part in parts.items():
        part.load_state_dict(state[name])
    return int(json.loads((Path(folder) / "epoch.json").read_text()))


def resume(**parts: Any) -> int:
    """Take the state from the checkpoint that Ray Train has, if there is one; returns the epoch to do
    first."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 1
    with checkpoint.as_directory() as folder:
        return load(folder, **parts) + 1
