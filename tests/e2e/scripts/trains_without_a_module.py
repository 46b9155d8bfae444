"""A rank that needs what is installed nowhere."""

from __future__ import annotations

from importlib import import_module

from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def train_func() -> None:
    """Fails on every rank."""
    import_module("not_installed_anywhere")


TorchTrainer(
    train_func,
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(storage_path="s3://ray"),
).fit()
