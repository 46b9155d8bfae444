"""What the scripts of `digits` share: the network, the data, and what a training asks of Ray.

The data are scikit-learn's handwritten digits: 1797 grey images of 8 x 8 pixels, shipped inside the package,
so nothing is downloaded.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import os
from typing import Any

import pytorch_lightning as pl
import ray
import torch
from ray.train import FailureConfig, RunConfig, ScalingConfig
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import TensorDataset


class DigitsModel(pl.LightningModule):
    """A small convolutional network: images of shape (N, 1, 8, 8) to logits of shape (N, 10)."""

    def __init__(self, lr: float, dropout: float, seed: int) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(dropout),
            nn.Linear(64 * 4 * 4, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        seed_step(self.hparams.seed, self.global_step, self.global_rank)
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def validation_step(self, batch: list[torch.Tensor], _: int) -> None:
        x, y = batch
        logits = self(x)
        self.log("val_loss", nn.functional.cross_entropy(logits, y), sync_dist=True)
        self.log("val_accuracy", (logits.argmax(1) == y).float().mean(), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


def seed_step(seed: int, step: int, rank: int) -> None:
    """Seed dropout, which draws from torch's global generator, for one step of one rank.

    Instead of carrying the generator's state along: step k draws the same numbers whether or not it follows a
    resume.
    """
    torch.manual_seed(seed + 1_000_003 * step + rank)


def weights_sha256(model: nn.Module) -> str:
    """Return the SHA-256 of the names and raw bytes of the weights: equal only if every bit is equal."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def check_finite(loss: float, place: str) -> None:
    """Raise an error before broken weights are saved: a checkpoint with NaN in it is useless for a resume.

    NaN ("not a number") is the result of, for example, 0/0. Once one weight is NaN, soon all weights are.
    """
    if not math.isfinite(loss):
        raise FloatingPointError(f"the loss of {place} is {loss}: nothing is saved")


def datasets() -> tuple[TensorDataset, TensorDataset]:
    """Return the digits as (training, validation) sets, always split in the same way."""
    digits = load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16.0
    y = torch.tensor(digits.target)
    train, val = train_test_split(range(len(y)), test_size=0.2, random_state=0, stratify=digits.target)
    return TensorDataset(x[train], y[train]), TensorDataset(x[val], y[val])


def parser(description: str) -> argparse.ArgumentParser:
    """Return the command line that all scripts have; `recipe.json` says what each option means."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--epochs", type=int, default=20)
    made.add_argument("--workers", type=int, default=1, help="Ray Train workers (ranks)")
    made.add_argument("--min-workers", type=int, help="fewest workers to continue with (elastic)")
    made.add_argument("--cpus", type=float, default=1, help="logical CPUs per worker")
    made.add_argument("--gpus", type=float, help="GPUs per worker (default: 1 if there are enough)")
    made.add_argument("--batch-size", type=int, default=16)
    made.add_argument("--lr", type=float, default=1e-3)
    made.add_argument("--dropout", type=float, default=0.25)
    made.add_argument("--seed", type=int, default=7)
    made.add_argument(
        "--storage", default=os.environ.get("RAYLAB_STORAGE", "s3://ray"), help="where checkpoints go"
    )
    made.add_argument("--max-failures", type=int, default=3)
    return made


def loop_config(args: argparse.Namespace) -> dict[str, Any]:
    """Return what every training function is told."""
    return {
        "batch_size": args.batch_size,
        "workers": args.workers,
        "lr": args.lr,
        "dropout": args.dropout,
        "seed": args.seed,
    }


def scaling_config(args: argparse.Namespace, *, spread: bool = False) -> ScalingConfig:
    """Return how many ranks there are, and what each asks for; needs `ray.init()` before.

    With `spread` they are on as many nodes as possible, so that the loss of one is not that of all.
    """
    gpus = args.gpus
    if gpus is None:
        gpus = 1 if ray.cluster_resources().get("GPU", 0) >= args.workers else 0
    return ScalingConfig(
        # A pair (minimum, maximum) makes it elastic; every few seconds Ray checks if it can grow.
        num_workers=(args.min_workers, args.workers) if args.min_workers else args.workers,
        elastic_resize_monitor_interval_s=5,
        use_gpu=bool(gpus),
        resources_per_worker={"CPU": args.cpus, **({"GPU": gpus} if gpus else {})},
        placement_strategy="SPREAD" if spread else "PACK",
    )


def run_config(args: argparse.Namespace) -> RunConfig:
    """Return where checkpoints go, and how many failures are survived."""
    return RunConfig(
        name=os.environ.get("RAYLAB_RUN_NAME"),
        storage_path=args.storage,
        failure_config=FailureConfig(max_failures=args.max_failures),
    )
