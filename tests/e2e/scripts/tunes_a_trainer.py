"""Ray Tune as for Ray 2.4x, and as in the course: the trainer itself is what is tuned, under ASHA."""

from __future__ import annotations

import ray.train
from ray import tune
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from ray.tune.schedulers import ASHAScheduler


def train_func(config: dict[str, float]) -> None:
    """Reports a loss that the learning rate alone decides."""
    for epoch in range(1, int(config["epochs"]) + 1):
        ray.train.report({"epoch": epoch, "loss": abs(config["lr"] - 0.1)})


trainer = TorchTrainer(
    train_func,
    scaling_config=ScalingConfig(num_workers=1, use_gpu=True, resources_per_worker={"GPU": 0.5, "CPU": 4}),
    run_config=RunConfig(storage_path="s3://ray"),
)
tuner = tune.Tuner(
    trainer,
    param_space={"train_loop_config": {"lr": tune.grid_search([0.1, 0.5]), "epochs": 2}},
    tune_config=tune.TuneConfig(metric="loss", mode="min", scheduler=ASHAScheduler(max_t=2, grace_period=1)),
)
results = tuner.fit()
print("best", results.get_best_result().config["train_loop_config"]["lr"], "errors", results.num_errors)
