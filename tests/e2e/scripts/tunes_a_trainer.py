"""Ray Tune as for Ray 2.4x: the trainer itself is what is tuned."""

from __future__ import annotations

from ray import tune
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def train_func(config: dict[str, float]) -> None:
    """Never reached."""


trainer = TorchTrainer(
    train_func,
    scaling_config=ScalingConfig(num_workers=1),
    run_config=RunConfig(storage_path="s3://ray"),
)
tune.Tuner(trainer, param_space={"train_loop_config": {"lr": tune.grid_search([0.01, 0.1])}}).fit()
