"""Train a digit classifier with PyTorch Lightning under Ray Train, and survive the loss of a worker.

Every epoch ends with a checkpoint in the object store. When a worker is lost, Ray Train starts the training
function again and `ray.train.get_checkpoint()` returns the newest checkpoint.

The resume is exact. Model, optimizer and epoch come from the checkpoint; the order of the data and the
random numbers of a step depend only on the seed, the epoch or step, and the rank. A run that lost a worker
therefore ends with the same weights, bit for bit, as one that did not (same seed and number of workers,
on CPU). With --min-workers it continues with fewer workers until a lost one is replaced; then the
weights differ in their last digits.

    ray job submit --working-dir . -- python train.py --epochs 20 --workers 2
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

import pytorch_lightning as pl
import ray
import ray.train
import ray.train.lightning
import torch
from common import (
    DigitsModel,
    check_finite,
    datasets,
    loop_config,
    parser,
    run_config,
    scaling_config,
    weights_sha256,
)
from ray.train import Checkpoint
from ray.train.torch import TorchTrainer
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

CHECKPOINT_FILE = "checkpoint.ckpt"


class ReportEveryEpoch(pl.Callback):
    """Saves a checkpoint at the end of each epoch and reports it to Ray Train with the metrics."""

    def on_train_epoch_end(self, trainer: pl.Trainer, model: pl.LightningModule) -> None:
        metrics: dict[str, Any] = {k: v.item() for k, v in trainer.callback_metrics.items()}
        metrics["epoch"] = trainer.current_epoch + 1
        check_finite(metrics["loss"], f"epoch {metrics['epoch']}")
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
    args = parser("Train a digit classifier on a Ray cluster.").parse_args()
    ray.init()
    result = TorchTrainer(
        train_func,
        train_loop_config={"epochs": args.epochs, **loop_config(args)},
        scaling_config=scaling_config(args),
        run_config=run_config(args),
    ).fit()
    metrics = result.metrics or {}
    print(f"done: epoch {metrics.get('epoch')}, val_accuracy {metrics.get('val_accuracy', 0):.4f}")


if __name__ == "__main__":
    main()
