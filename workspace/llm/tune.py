"""Search for LoRA's rank and learning rate with Ray Tune. Each trial is a run of Ray Train as in train.py.

ASHA ends a trial early when half of those before it had a lower loss on the text held out. A trial that loses
a node goes on from its newest checkpoint.

    ray job submit --working-dir . -- python tune.py --from RUN --samples 8 --steps 60
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import ray
from ray import tune
from ray.tune.integration.ray_train import TuneReportCallback
from ray.tune.schedulers import ASHAScheduler
from train import newest_of, settings, trainer

TUNED = ("lora_rank", "lr")
RANKS = (2, 4, 8, 16)


class ReportEvaluated(TuneReportCallback):
    """Passes on the reports that hold what trials are compared by."""

    def after_report(self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Any) -> None:
        if "val_loss" in metrics[0]:
            super().after_report(run_context, metrics, checkpoint)


def trial(config: dict[str, Any]) -> None:
    """Run one trial; when Tune starts it again, it is the same run of Ray Train."""
    context = tune.get_context()
    name = f"{context.get_experiment_name()}-{context.get_trial_id()}"
    trainer(argparse.Namespace(**config), name, callbacks=[ReportEvaluated()]).fit()


def places(args: argparse.Namespace) -> int:
    """Count the trials that the nodes can hold at once."""
    needs = {"CPU": args.cpus, "GPU": args.gpus or 0}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    ranks = sum(int(min(node.get(name, 0) / n for name, n in needs.items() if n)) for node in nodes)
    return max(1, ranks // args.workers)


def table(results: Any) -> str:
    """Every trial, the best one first. Exits if every trial failed."""
    done = [result for result in results if result.metrics and "val_loss" in result.metrics]
    if not done:
        raise SystemExit("every trial failed: look for the first error in the job's log")
    done.sort(key=lambda result: result.metrics["val_loss"])
    lines = [f"{'rank':>4}  {'lr':>8}  {'steps':>5}  val_loss"]
    for result in done:
        rank, lr = (result.config[name] for name in TUNED)
        lines.append(f"{rank:>4}  {lr:8.5f}  {result.metrics['step']:>5}  {result.metrics['val_loss']:.4f}")
    rank, lr = (done[0].config[name] for name in TUNED)
    best = f"best: -p lora-rank={rank} -p lr={lr:.5f}, val_loss {done[0].metrics['val_loss']:.4f}"
    return "\n".join([*lines, f"trials: {len(done)}, failed: {len(list(results)) - len(done)}", best])


def main() -> None:
    parser = settings()
    parser.add_argument("--samples", type=int, default=8, help="trials")
    parser.set_defaults(text="prose", steps=60, evaluate_every=20)
    args = parser.parse_args()
    if not vars(args)["from"]:
        raise SystemExit("--from: name the checkpoint or run to fine-tune")
    ray.init()
    vars(args)["from"] = newest_of(vars(args)["from"], args.storage)
    samples = vars(args).pop("samples")
    np.random.seed(args.seed)  # Tune draws from this generator: the same settings each time
    space = {"lora_rank": tune.choice(RANKS), "lr": tune.loguniform(3e-4, 3e-2)}
    tuner = tune.Tuner(
        # A trial only waits for its ranks, which need the CPUs. It requests none and runs on the head node.
        tune.with_resources(trial, {"CPU": 0, "node:__internal_head__": 0.001}),
        param_space={**vars(args), **space},
        tune_config=tune.TuneConfig(
            metric="val_loss",
            mode="min",
            num_samples=samples,
            max_concurrent_trials=min(samples, places(args)),
            scheduler=ASHAScheduler(
                "step", max_t=args.steps + 1, grace_period=args.evaluate_every, reduction_factor=2
            ),
        ),
        run_config=tune.RunConfig(
            storage_path=args.storage,
            failure_config=tune.FailureConfig(max_failures=args.max_failures),
            verbose=0,
        ),
    )
    print(table(tuner.fit()))


if __name__ == "__main__":
    main()
