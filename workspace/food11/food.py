"""What the scripts of Food-11 share, and Ray has no part in: the pictures, and the network.

The data are in FOOD11_DATA_DIR, a folder per split and class: training/class_00/*.jpg. The network is
MobileNetV2 with a new head on a GPU with torchvision and its ImageNet weights, else a small network.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

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
            size = self.pixels, self.pixels
            picture.draft("RGB", size)  # large JPEG files are decoded smaller, which is faster
            values = np.array(picture.convert("RGB").resize(size), dtype=np.float32)
        return torch.from_numpy(values).permute(2, 0, 1) / 127.5 - 1, int(file.parent.name[-2:])


def loaders(config: dict[str, Any]) -> tuple[DataLoader, DataLoader]:
    """Return the pictures to train on, in another order in each epoch, and those to validate with."""
    pixels, most = PIXELS[config["backbone"]], config["pictures"]
    options = {"batch_size": config["batch_size"], "num_workers": config["loaders"]}
    training = DataLoader(Pictures("training", pixels, most), shuffle=True, **options)
    return training, DataLoader(Pictures("validation", pixels, most), **options)


def parser() -> argparse.ArgumentParser:
    """Return the options of every script."""
    made = argparse.ArgumentParser(description="Train a food classifier.")
    made.add_argument("--epochs", type=int, default=10)
    made.add_argument("--lr", type=float, default=2e-3)
    made.add_argument("--seed", type=int, default=7)
    made.add_argument("--pictures", type=int, default=0, help="limit per class and split; 0: all")
    made.add_argument("--backbone", choices=("auto", "mobilenet", "small"), default="auto")
    made.add_argument("--head-epochs", type=int, default=3, help="epochs of MobileNetV2's head alone")
    made.add_argument("--loaders", type=int, default=0, help="processes that read pictures")
    made.add_argument("--threads", type=int, default=1, help="threads of torch on a CPU")
    return made


def check_pictures() -> None:
    """End this script where there are no pictures."""
    if not any(DATA.glob("training/class_*/*")):
        who = "on the host (in a class: your teacher does)"
        sys.exit(f"no pictures in {DATA}: type `labctl lesson data food11` {who}, then submit again")


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
