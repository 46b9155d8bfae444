"""Classify pictures of food (Food-11) with PyTorch Lightning under Ray Train.

The pictures and the network, in which the scripts do not differ, are in food.py.
Each epoch ends with a checkpoint in the object store. After the loss of a node Ray Train starts the training
function again, and it resumes from the newest checkpoint.

    ray job submit --working-dir . -- python train_ray.py --workers 2
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytorch_lightning as pl
import ray.train.lightning
import torch
from food import FoodModel, check_pictures, choose_backbone, loaders, parser, weights_sha256
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


class EveryEpoch(pl.Callback):
    """Saves a checkpoint at the end of each epoch, reports it to Ray Train, and prints a line."""

    def on_train_epoch_start(self, trainer: pl.Trainer, model: pl.LightningModule) -> None:
        self.started = time.monotonic()

    def on_train_epoch_end(self, trainer: pl.Trainer, model: pl.LightningModule) -> None:
        metrics: dict[str, Any] = {k: v.item() for k, v in trainer.callback_metrics.items()}
        if not np.isfinite(metrics["loss"]):  # NaN or infinite: never save weights that are broken
            raise FloatingPointError(f"the loss of epoch {trainer.current_epoch + 1} is {metrics['loss']}")
        metrics["seconds"] = time.monotonic() - self.started
        line = "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        metrics["epoch"] = trainer.current_epoch + 1
        metrics["weights_sha256"] = weights_sha256(model)
        with tempfile.TemporaryDirectory() as folder:
            trainer.save_checkpoint(f"{folder}/checkpoint.ckpt", weights_only=False)  # written by rank 0
            checkpoint = Checkpoint.from_directory(folder) if trainer.is_global_zero else None
            ray.train.report(metrics, checkpoint=checkpoint)
        print(f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs}  {line}", flush=True)


def train_func(config: dict[str, Any]) -> None:
    torch.set_num_threads(config["threads"])
    pl.seed_everything(config["seed"], verbose=False)

    config = {**config, "backbone": choose_backbone(config["backbone"])}
    trainer = pl.Trainer(
        max_epochs=config["epochs"],
        accelerator="auto",
        devices="auto",
        strategy=ray.train.lightning.RayDDPStrategy(),
        plugins=[ray.train.lightning.RayLightningEnvironment()],
        callbacks=[EveryEpoch()],
        enable_checkpointing=False,
        num_sanity_val_steps=0,
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
    )
    trainer = ray.train.lightning.prepare_trainer(trainer)
    checkpoint = ray.train.get_checkpoint()  # None at the start
    with checkpoint.as_directory() if checkpoint else nullcontext() as folder:
        newest = f"{folder}/checkpoint.ckpt" if checkpoint else None
        trainer.fit(FoodModel(config), *loaders(config), ckpt_path=newest, weights_only=False)


def main() -> None:
    options = parser()
    options.add_argument("--batch-size", type=int, default=32)
    options.add_argument("--dropout", type=float, default=0.3)
    options.add_argument("--workers", type=int, default=1, help="ranks of Ray Train")
    options.add_argument("--gpus", type=float, default=1, help="per rank")
    options.add_argument("--cpus", type=float, default=8, help="per rank")
    options.add_argument("--max-failures", type=int, default=2, help="failures survived; -1: any number")
    args = options.parse_args()
    check_pictures()

    resources = {"GPU": args.gpus, "CPU": args.cpus}
    trainer = TorchTrainer(
        train_func,
        train_loop_config=vars(args),
        scaling_config=ScalingConfig(
            num_workers=args.workers, use_gpu=args.gpus > 0, resources_per_worker=resources
        ),
        run_config=RunConfig(
            storage_path=os.environ.get("RAYLAB_STORAGE", "s3://ray"),
            failure_config=FailureConfig(max_failures=args.max_failures),
        ),
    )
    metrics = trainer.fit().metrics
    print(f"done: epoch {metrics['epoch']}, val_accuracy {metrics['val_accuracy']:.4f}")


if __name__ == "__main__":
    main()
