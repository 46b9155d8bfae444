"""Classify pictures of food (Food-11) with PyTorch Lightning under Ray Train, tuned by Ray Tune.

Each trial is a training of train_ray.py, with its checkpoints and its resume. Ray Tune tries batch sizes and
dropouts; ASHA stops a trial early if half of the trials before it were better.

    ray job submit --working-dir . -- python tune_ray.py --samples 16
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import ray
from food import check_pictures, parser
from ray import tune
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from ray.tune.integration.ray_train import TuneReportCallback
from ray.tune.schedulers import ASHAScheduler
from train_ray import train_func
from trials import Trials, summary


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
    return sum(int(min(counts, default=0)) for counts in fits)


def main() -> None:
    options = parser()
    options.add_argument("--samples", type=int, default=16, help="trials")
    options.add_argument("--workers", type=int, default=1, help="ranks of Ray Train per trial")
    options.add_argument("--gpus", type=float, default=1, help="per rank")
    options.add_argument("--cpus", type=float, default=8, help="per rank")
    options.add_argument("--max-failures", type=int, default=2, help="failures survived; -1: any number")
    args = options.parse_args()
    check_pictures()

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
