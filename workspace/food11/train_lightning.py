"""Classify pictures of food (Food-11) with PyTorch Lightning. There is no Ray in this script.

The pictures and the network, in which the scripts do not differ, are in food.py.
Each epoch ends with a checkpoint on the disk of the machine that trains.

    ray job submit --entrypoint-num-gpus 1 --working-dir . -- python train_lightning.py
"""

from __future__ import annotations

import tempfile
import time
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from food import FoodModel, check_pictures, choose_backbone, loaders, parser


class EveryEpoch(pl.Callback):
    """Prints a line at the end of each epoch."""

    def on_train_epoch_start(self, trainer: pl.Trainer, model: pl.LightningModule) -> None:
        self.started = time.monotonic()

    def on_train_epoch_end(self, trainer: pl.Trainer, model: pl.LightningModule) -> None:
        metrics: dict[str, Any] = {k: v.item() for k, v in trainer.callback_metrics.items()}
        if not np.isfinite(metrics["loss"]):  # NaN or infinite: never save weights that are broken
            raise FloatingPointError(f"the loss of epoch {trainer.current_epoch + 1} is {metrics['loss']}")
        metrics["seconds"] = time.monotonic() - self.started
        line = "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        print(f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs}  {line}", flush=True)


def train_func(config: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(config["threads"])
    pl.seed_everything(config["seed"], verbose=False)

    config = {**config, "backbone": choose_backbone(config["backbone"])}
    trainer = pl.Trainer(
        max_epochs=config["epochs"],
        accelerator="auto",
        devices="auto",
        callbacks=[EveryEpoch(), pl.callbacks.ModelCheckpoint(tempfile.mkdtemp(prefix="food11-"))],
        num_sanity_val_steps=0,
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
    )
    trainer.fit(FoodModel(config), *loaders(config))
    return {"epoch": trainer.current_epoch, **{k: v.item() for k, v in trainer.callback_metrics.items()}}


def main() -> None:
    options = parser()
    options.add_argument("--batch-size", type=int, default=32)
    options.add_argument("--dropout", type=float, default=0.3)
    args = options.parse_args()
    check_pictures()

    metrics = train_func(vars(args))
    print(f"done: epoch {metrics['epoch']}, val_accuracy {metrics['val_accuracy']:.4f}")


if __name__ == "__main__":
    main()
