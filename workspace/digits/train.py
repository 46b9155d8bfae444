"""Train a digit classifier with PyTorch Lightning under Ray Train, and survive the loss of a worker.

The data are scikit-learn's handwritten digits: 1797 grey images of 8 x 8 pixels, shipped inside the
package, so nothing is downloaded. Every epoch ends with a checkpoint in the object store. When a worker
is lost, Ray Train starts the training function again and `ray.train.get_checkpoint()` returns the newest
checkpoint.

The resume is exact. Model, optimizer and epoch come from the checkpoint; the order of the data and the
random numbers of a step depend only on the seed, the epoch or step, and the rank. A run that lost a worker
therefore ends with the same weights, bit for bit, as one that did not (same seed and number of workers,
on CPU). With --min-workers it continues with fewer workers until a lost one is replaced; then the
weights differ in their last digits.

    ray job submit --working-dir . -- python train.py --epochs 20 --workers 2
"""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import tempfile
from typing import Any

import pytorch_lightning as pl
import ray
import ray.train
import ray.train.lightning
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

CHECKPOINT_FILE = "checkpoint.ckpt"


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
        # Dropout draws from torch's global generator. Seeding it for every step and rank, instead of carrying
        # its state along, makes step k draw the same numbers whether or not it follows a resume.
        torch.manual_seed(self.hparams.seed + 1_000_003 * self.global_step + self.global_rank)
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


def weights_sha256(model: nn.Module) -> str:
    """Return the SHA-256 of the names and raw bytes of the weights: equal only if every bit is equal."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def check_finite(metrics: dict[str, Any]) -> None:
    """Raise an error before broken weights are saved: a checkpoint with NaN in it is useless for a resume.

    NaN ("not a number") is the result of, for example, 0/0. Once one weight is NaN, soon all weights are.
    """
    if not math.isfinite(metrics["loss"]):
        epoch, loss = metrics["epoch"], metrics["loss"]
        raise FloatingPointError(f"the loss of epoch {epoch} is {loss}: nothing is saved")


class ReportEveryEpoch(pl.Callback):
    """Saves a checkpoint at the end of each epoch and reports it to Ray Train with the metrics."""

    def on_train_epoch_end(self, trainer: pl.Trainer, model: pl.LightningModule) -> None:
        metrics: dict[str, Any] = {k: v.item() for k, v in trainer.callback_metrics.items()}
        metrics["epoch"] = trainer.current_epoch + 1
        check_finite(metrics)
        metrics["weights_sha256"] = weights_sha256(model)
        with tempfile.TemporaryDirectory() as folder:
            trainer.save_checkpoint(os.path.join(folder, CHECKPOINT_FILE))  # rank 0 writes, all ranks wait
            checkpoint = Checkpoint.from_directory(folder) if trainer.is_global_zero else None
            ray.train.report(metrics, checkpoint=checkpoint)
        if trainer.is_global_zero:
            print(
                f"epoch {metrics['epoch']}/{trainer.max_epochs}  loss {metrics['loss']:.4f}"
                f"  val_accuracy {metrics['val_accuracy']:.4f}",
                flush=True,
            )


def datasets() -> tuple[TensorDataset, TensorDataset]:
    """Return the digits as (training, validation) sets, always split in the same way."""
    digits = load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16.0
    y = torch.tensor(digits.target)
    train, val = train_test_split(range(len(y)), test_size=0.2, random_state=0, stratify=digits.target)
    return TensorDataset(x[train], y[train]), TensorDataset(x[val], y[val])


def train_loader(train_set: TensorDataset, config: dict[str, Any], rank: int, world_size: int) -> DataLoader:
    """Return the images of one rank, in an order that depends only on the seed and the epoch.

    With --min-workers the number of workers can change from attempt to attempt. Together they always use the
    same images in the same step: with fewer workers, each uses more images.
    """
    sampler = DistributedSampler(
        train_set,
        num_replicas=world_size,
        rank=rank,
        seed=config["seed"],  # Lightning calls set_epoch, which fixes the order for each epoch
    )
    batch_size = max(1, config["batch_size"] * config["workers"] // world_size)
    return DataLoader(train_set, batch_size=batch_size, sampler=sampler)


def train_func(config: dict[str, Any]) -> None:
    """Train on one Ray Train worker, at the start and again after every failure."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    pl.seed_everything(config["seed"], verbose=False)

    train_set, val_set = datasets()
    context = ray.train.get_context()
    trainer = pl.Trainer(
        max_epochs=config["epochs"],
        accelerator="auto",
        devices="auto",
        strategy=ray.train.lightning.RayDDPStrategy(),
        plugins=[ray.train.lightning.RayLightningEnvironment()],
        callbacks=[ReportEveryEpoch()],
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
    )
    trainer = ray.train.lightning.prepare_trainer(trainer)
    model = DigitsModel(config["lr"], config["dropout"], config["seed"])
    loaders = (
        train_loader(train_set, config, context.get_world_rank(), context.get_world_size()),
        DataLoader(val_set, batch_size=256),
    )

    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            trainer.fit(model, *loaders, ckpt_path=os.path.join(folder, CHECKPOINT_FILE), weights_only=False)
    else:
        trainer.fit(model, *loaders)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a digit classifier on a Ray cluster.")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--workers", type=int, default=1, help="Ray Train workers (ranks)")
    parser.add_argument(
        "--min-workers", type=int, default=None, help="fewest workers to continue with (elastic)"
    )
    parser.add_argument("--cpus", type=float, default=1, help="logical CPUs per worker")
    parser.add_argument(
        "--gpus", type=float, default=None, help="GPUs per worker (default: 1 if there are enough)"
    )
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--dropout", type=float, default=0.25)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--storage", default="s3://ray", help="where checkpoints go")
    parser.add_argument("--max-failures", type=int, default=3)
    args = parser.parse_args()

    ray.init()
    gpus = args.gpus
    if gpus is None:
        gpus = 1 if ray.cluster_resources().get("GPU", 0) >= args.workers else 0
    resources = {"CPU": args.cpus, **({"GPU": gpus} if gpus else {})}
    trainer = TorchTrainer(
        train_func,
        train_loop_config={
            "epochs": args.epochs,
            "batch_size": args.batch_size,
            "workers": args.workers,
            "lr": args.lr,
            "dropout": args.dropout,
            "seed": args.seed,
        },
        scaling_config=ScalingConfig(
            # A pair (minimum, maximum) makes it elastic; every few seconds Ray checks if it can grow.
            num_workers=(args.min_workers, args.workers) if args.min_workers else args.workers,
            elastic_resize_monitor_interval_s=5,
            use_gpu=bool(gpus),
            resources_per_worker=resources,
        ),
        run_config=RunConfig(
            name=os.environ.get("RAYLAB_RUN_NAME"),
            storage_path=args.storage,
            failure_config=FailureConfig(max_failures=args.max_failures),
        ),
    )
    result = trainer.fit()
    metrics = result.metrics or {}
    print(f"done: epoch {metrics.get('epoch')}, val_accuracy {metrics.get('val_accuracy', 0):.4f}")


if __name__ == "__main__":
    main()
