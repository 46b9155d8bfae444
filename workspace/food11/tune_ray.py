"""Classify pictures of food (Food-11) with PyTorch Lightning under Ray Train, tuned by Ray Tune.

The data are in FOOD11_DATA_DIR, a folder per split and class: training/class_00/*.jpg. The network is
MobileNetV2 with a new head on a GPU with torchvision and its ImageNet weights, else a small network.
Each epoch ends with a checkpoint in the object store. After the loss of a node Ray Train starts the training
function again, and it resumes from the newest checkpoint. Ray Tune tries batch sizes and dropouts; ASHA
stops a trial early if half of the trials before it were better.

    ray job submit --working-dir . -- python tune_ray.py --samples 16
"""

from __future__ import annotations

import argparse
import hashlib
import os
import socket
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import ray
import ray.train.lightning
import torch
from PIL import Image
from ray import tune
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from ray.tune.integration.ray_train import TuneReportCallback
from ray.tune.schedulers import ASHAScheduler
from torch import nn
from torch.utils.data import DataLoader, Dataset
from trials import Trials, summary

CLASSES = 11
DATA = Path(os.environ.get("FOOD11_DATA_DIR", "/mnt/Food-11"))
SUFFIXES = (".jpg", ".jpeg", ".png")
PIXELS = {"mobilenet": 224, "small": 32}  # width and height of the pictures for each network


class Pictures(Dataset):
    """Pictures of one split, scaled to squares: tensors of shape (3, pixels, pixels), and their class.

    `most` limits the pictures of each class to the first ones by name; 0: all.
    """

    def __init__(self, split: str, pixels: int, most: int) -> None:
        self.pixels = pixels
        self.files: list[Path] = []
        for folder in sorted(DATA.glob(f"{split}/class_*")):
            files = sorted(f for f in folder.glob("*") if f.suffix.lower() in SUFFIXES)
            self.files += files[: most or None]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        file = self.files[index]
        with Image.open(file) as picture:
            picture.draft(
                "RGB", (self.pixels, self.pixels)
            )  # large JPEG files are decoded smaller, which is faster
            values = np.array(picture.convert("RGB").resize((self.pixels, self.pixels)), dtype=np.float32)
        return torch.from_numpy(values).permute(2, 0, 1) / 127.5 - 1, int(file.parent.name[-2:])


def mobilenet() -> nn.Module:
    """Return MobileNetV2 without its head. Raises if torchvision or its ImageNet weights are missing."""
    from torchvision.models import MobileNet_V2_Weights, mobilenet_v2

    socket.setdefaulttimeout(20)  # the weights are downloaded once; without internet it gives up after 20 s
    return mobilenet_v2(weights=MobileNet_V2_Weights.DEFAULT).features


def small() -> nn.Module:
    """Return three convolutional layers with random weights."""
    layers: list[nn.Module] = []
    for channels_in, channels in ((3, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(channels_in, channels, 3, padding=1), nn.GroupNorm(8, channels)]
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers)


def choose_backbone(wanted: str) -> str:
    """Return `mobilenet` or `small`, and print why. Called in the process that trains: it sees the GPU."""
    chosen, why = "small", "asked for"
    gpu = torch.cuda.is_available() and os.environ.get("RAYLAB_GPU") != "simulated"
    try:
        if wanted == "auto" and not gpu:
            why = "no real GPU here: MobileNetV2 would take minutes for an epoch"
        elif wanted != "small":
            mobilenet()
            chosen, why = "mobilenet", "torchvision and the weights are there"
    except (ImportError, OSError, RuntimeError) as error:
        if wanted == "mobilenet":
            sys.exit(f"--backbone mobilenet: {error}")
        why = f"MobileNetV2 is not available: {error}"
    print(f"backbone: {chosen}, {PIXELS[chosen]} x {PIXELS[chosen]} pixels ({why})", flush=True)
    return chosen


class FoodModel(pl.LightningModule):
    """A backbone that computes features, and a head that predicts one of the 11 classes."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.config = config
        pretrained = config["backbone"] == "mobilenet"
        self.backbone = mobilenet() if pretrained else small()
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(config["dropout"]),
            nn.Linear(1280 if pretrained else 128, CLASSES),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.backbone(x))

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        # Dropout draws different random numbers in every step and rank, but the same ones after a resume.
        torch.manual_seed(self.config["seed"] + 1_000_003 * self.global_step + self.global_rank)
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def validation_step(self, batch: list[torch.Tensor], _: int) -> None:
        x, y = batch
        logits = self(x)
        self.log("val_loss", nn.functional.cross_entropy(logits, y), sync_dist=True)
        self.log("val_accuracy", (logits.argmax(1) == y).float().mean(), sync_dist=True)

    def configure_optimizers(self) -> tuple[list[Any], list[Any]]:
        parts = [{"params": self.head.parameters()}, {"params": self.backbone.parameters()}]
        optimizer = torch.optim.Adam(parts, lr=self.config["lr"])

        def of_backbone(epoch: int) -> float:
            """Return the factor of the learning rate; a pretrained backbone is frozen first, then slow."""
            resting, slow = (0.0, 0.1) if self.config["backbone"] == "mobilenet" else (1.0, 1.0)
            return resting if epoch < self.config["head_epochs"] else slow

        return [optimizer], [torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda epoch: 1.0, of_backbone])]


def weights_sha256(model: nn.Module) -> str:
    """Return a fingerprint of the weights: equal on two ranks only if every bit is equal."""
    weights = [p.detach().cpu().numpy().tobytes() for p in model.parameters()]
    return hashlib.sha256(b"".join(weights)).hexdigest()


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
    pixels, most = PIXELS[config["backbone"]], config["pictures"]
    options = {"batch_size": config["batch_size"], "num_workers": config["loaders"]}
    training = DataLoader(Pictures("training", pixels, most), shuffle=True, **options)
    validation = DataLoader(Pictures("validation", pixels, most), **options)
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
        trainer.fit(FoodModel(config), training, validation, ckpt_path=newest, weights_only=False)


def trial(config: dict[str, Any]) -> None:
    """Run one trial: a run of Ray Train as in train_ray.py, which also reports to Tune."""
    resources = {"GPU": config["gpus"], "CPU": config["cpus"]}
    context = tune.get_context()
    trainer = TorchTrainer(
        train_func,
        train_loop_config=config,
        scaling_config=ScalingConfig(
            num_workers=config["workers"], use_gpu=config["gpus"] > 0, resources_per_worker=resources
        ),
        run_config=RunConfig(
            name=f"{context.get_experiment_name()}-{context.get_trial_id()}",  # after a restart: the same run
            storage_path=os.environ.get("RAYLAB_STORAGE", "s3://ray"),
            failure_config=FailureConfig(max_failures=config["max_failures"]),
            callbacks=[TuneReportCallback()],
        ),
    )
    trainer.fit()


def places(needs: dict[str, float]) -> int:
    """Count the ranks with these needs that the nodes can hold at once."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    fits = [[node.get(name, 0) / n for name, n in needs.items() if n] for node in nodes]
    return sum(int(min(each, default=0)) for each in fits)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a food classifier.")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--pictures", type=int, default=0, help="limit per class and split; 0: all")
    parser.add_argument("--backbone", choices=("auto", "mobilenet", "small"), default="auto")
    parser.add_argument("--head-epochs", type=int, default=3, help="epochs of MobileNetV2's head alone")
    parser.add_argument("--loaders", type=int, default=0, help="processes that read pictures")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch on a CPU")
    parser.add_argument("--samples", type=int, default=16, help="trials")
    parser.add_argument("--workers", type=int, default=1, help="ranks of Ray Train per trial")
    parser.add_argument("--gpus", type=float, default=1, help="per rank")
    parser.add_argument("--cpus", type=float, default=8, help="per rank")
    parser.add_argument("--max-failures", type=int, default=2, help="failures survived; -1: any number")
    args = parser.parse_args()
    if not any(DATA.glob("training/class_*/*")):
        sys.exit(f"no pictures in {DATA}: type `labctl lesson data food11` on the host, then submit again")

    config = {**vars(args), "batch_size": tune.choice([32, 64]), "dropout": tune.uniform(0.1, 0.8)}
    tuned = ("batch_size", "dropout")
    np.random.seed(args.seed)  # Tune draws its settings from this generator: the same ones each time
    ray.init()
    table = Trials(args.epochs, tuned)
    at_once = max(1, places({"GPU": args.gpus, "CPU": args.cpus}) // args.workers)
    tuner = tune.Tuner(
        # A trial only waits for its ranks, which need the CPUs. It requests none and runs on the head node.
        tune.with_resources(trial, {"CPU": 0, "node:__internal_head__": 0.001}),
        param_space=config,
        tune_config=tune.TuneConfig(
            metric="val_accuracy",
            mode="max",
            num_samples=args.samples,
            max_concurrent_trials=at_once,
            scheduler=ASHAScheduler("epoch", max_t=args.epochs + 1, grace_period=1, reduction_factor=2),
        ),
        run_config=tune.RunConfig(
            storage_path=os.environ.get("RAYLAB_STORAGE", "s3://ray"),
            failure_config=tune.FailureConfig(max_failures=args.max_failures),
            callbacks=[table],
            verbose=0,
        ),
    )
    print(summary(tuner.fit(), args.epochs, tuned, table.failed))


if __name__ == "__main__":
    main()
