"""Ray Tune over a trainer of Ray Train, as scripts for Ray 2.4x have it: `tune.Tuner(TorchTrainer(...))`.

Ray (2.60) takes only a function there, one that makes the trainer and calls its `fit`. Here the trainer is
made such a function: each trial is a run of its own with its own `train_loop_config`, which reports to Tune,
as in workspace/food11/tune_ray.py. The function waits on the head and asks for nothing, so that the ranks
find the CPUs free; as many trials go on at once as the nodes can hold. A Tuner of a function stays as it is.
"""

from __future__ import annotations

from raylab_compat.import_hooks import after_import
from raylab_switches import active

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import ModuleType
    from typing import Any

TUNED = "train_loop_config"
"""The only part of a trainer that `param_space` can set."""

ON_THE_HEAD = {"CPU": 0, "node:__internal_head__": 0.001}


def take_trainers(module: ModuleType) -> None:
    """Let Tune's inner Tuner take a trainer for a function."""
    tuner: Any = module.TunerInternal
    original_init, original_fit = tuner.__init__, tuner.fit

    def init(self: Any, *args: Any, **given: Any) -> None:
        trainer: Any = given.get("trainable")
        if not is_trainer(trainer):
            original_init(self, *args, **given)
            return
        original_init(self, *args, **{**given, **in_place_of(trainer, given)})
        self.raylab_scaling = trainer.scaling_config

    def fit(self: Any) -> Any:
        scaling = getattr(self, "raylab_scaling", None)
        if scaling is not None and self._tune_config.max_concurrent_trials is None:
            self._tune_config.max_concurrent_trials = at_once(scaling)
        return original_fit(self)

    tuner.__init__, tuner.fit = init, fit


def is_trainer(trainable: Any) -> bool:
    """Tell if this is a trainer of Ray Train, without importing it."""
    return any(
        kind.__module__ == "ray.train.v2.api.data_parallel_trainer" for kind in type(trainable).__mro__
    )


def in_place_of(trainer: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a Tuner that stand for this trainer. Raises ValueError for what cannot be tuned."""
    from ray import tune

    other = sorted(set(given.get("param_space") or ()) - {TUNED})
    if other:
        raise ValueError(f"param_space of a trainer holds only {TUNED!r}, not {other[0]!r}")
    run_config = given.get("run_config")
    if not isinstance(run_config, tune.RunConfig):
        stored = run_config or trainer.run_config
        run_config = tune.RunConfig(
            storage_path=stored.storage_path, storage_filesystem=stored.storage_filesystem
        )
    return {"trainable": tune.with_resources(trial_of(trainer), ON_THE_HEAD), "run_config": run_config}


def trial_of(trainer: Any) -> Callable[[dict[str, Any]], None]:
    """The function that runs this trainer once, with what Tune chose, under the trainer's name."""

    def trial(config: dict[str, Any]) -> None:
        from copy import copy
        from dataclasses import replace

        from ray import tune
        from ray.tune.integration.ray_train import TuneReportCallback

        context = tune.get_context()
        one = copy(trainer)
        one.train_loop_config = {**(trainer.train_loop_config or {}), **config.get(TUNED, {})}
        one.run_config = replace(
            trainer.run_config,
            name=f"{context.get_experiment_name()}-{context.get_trial_id()}",  # after a restart: the same run
            callbacks=[*(trainer.run_config.callbacks or ()), TuneReportCallback()],
        )
        one.train_run_context = replace(
            trainer.train_run_context, run_config=one.run_config, train_loop_config=one.train_loop_config
        )
        one.fit()

    trial.__name__ = type(trainer).__name__
    return trial


def at_once(scaling: Any) -> int:
    """Count the trials that the nodes can hold at once; one at least."""
    import ray

    if not ray.is_initialized():
        ray.init()
    ranks: int = scaling.num_workers[0] if isinstance(scaling.num_workers, tuple) else scaling.num_workers
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return max(1, places(nodes, scaling._resources_per_worker_not_none) // max(1, ranks))


def places(nodes: Iterable[Mapping[str, float]], needs: Mapping[str, float]) -> int:
    """Count the ranks with these needs that nodes with these resources can hold."""
    fits = ([node.get(name, 0) / need for name, need in needs.items() if need] for node in nodes)
    return sum(int(min(ratios, default=0)) for ratios in fits)


CHANGES = {"ray.tune.impl.tuner_internal": take_trainers}


def install() -> None:
    """Change Ray Tune in this process; once is enough."""
    if active("tuned_trainer"):
        after_import(CHANGES)
