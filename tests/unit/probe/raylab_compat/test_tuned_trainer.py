"""A trainer that is handed to Tune becomes the function that Tune takes; functions stay as they are."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from raylab_compat import tuned_trainer

NODES = [
    {"node:__internal_head__": 1.0, "memory": 4e9},
    {"CPU": 8.0, "GPU": 1.0},
    {"CPU": 8.0, "GPU": 1.0},
]


@dataclass(frozen=True)
class RunConfig:
    """Of Ray Train, or of Tune."""

    storage_path: str = "/home/me/ray_results"
    storage_filesystem: Any = None
    name: str | None = "ray_train_run-now"
    callbacks: Any = None


@dataclass(frozen=True)
class Context:
    run_config: RunConfig
    train_loop_config: Any
    run_id: object = field(init=False, default_factory=object)


class DataParallelTrainer:
    """Stands for Ray's, by its module."""

    __module__ = "ray.train.v2.api.data_parallel_trainer"


class TorchTrainer(DataParallelTrainer):
    def __init__(self, train_loop_config: Any = None, *, ranks: Any = 1, needs: Any = None) -> None:
        self.train_loop_config = train_loop_config
        self.run_config = RunConfig("s3://ray", callbacks=["mine"])
        needs = needs or {"GPU": 0.5, "CPU": 4}
        self.scaling_config = SimpleNamespace(num_workers=ranks, _resources_per_worker_not_none=needs)
        self.train_run_context = Context(self.run_config, train_loop_config)
        self.fitted: list[Any] = []

    def fit(self) -> None:
        self.fitted.append((self.train_loop_config, self.run_config, self.train_run_context))


class RayTune:
    """Ray and Tune as far as the patch asks them, and a Tuner that keeps what it was given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class TunerInternal:
            def __init__(self, **given: Any) -> None:
                self.given, self._tune_config = given, given["tune_config"]

            def fit(self) -> Any:
                return self._tune_config.max_concurrent_trials

        @dataclass(frozen=True)
        class OfTune(RunConfig):
            name: str | None = None

        self.of_tune, self.joined = OfTune, 0
        context = SimpleNamespace(
            get_experiment_name=lambda: "TorchTrainer_today", get_trial_id=lambda: "7f_00003"
        )
        tune: Any = ModuleType("ray.tune")
        tune.RunConfig, tune.get_context = OfTune, lambda: context
        tune.with_resources = lambda trial, needs: (trial, needs)
        ray: Any = ModuleType("ray")
        ray.tune, ray.nodes = tune, lambda: [{"Alive": True, "Resources": resources} for resources in NODES]
        ray.is_initialized, ray.init = (lambda: False), self.join
        reports: Any = ModuleType("ray.tune.integration.ray_train")
        reports.TuneReportCallback = lambda: "reports"
        for module in (ray, tune, ModuleType("ray.tune.integration"), reports):
            monkeypatch.setitem(sys.modules, module.__name__, module)
        inner: Any = ModuleType("ray.tune.impl.tuner_internal")
        inner.TunerInternal = TunerInternal
        tuned_trainer.take_trainers(inner)
        self.tuner = inner.TunerInternal

    def join(self) -> None:
        self.joined += 1

    def tune(self, trainable: Any, most: int | None = None, **given: Any) -> Any:
        given.setdefault("param_space", {"train_loop_config": {"lr": 0.1}})
        config = SimpleNamespace(max_concurrent_trials=most)
        return self.tuner(trainable=trainable, tune_config=config, **given)


@pytest.fixture
def ray_tune(monkeypatch: pytest.MonkeyPatch) -> RayTune:
    return RayTune(monkeypatch)


def test_a_trial_is_a_run_of_the_trainer_with_what_tune_chose(ray_tune: RayTune) -> None:
    trainer = TorchTrainer({"lr": 1.0, "epochs": 5})
    trial, needs = ray_tune.tune(trainer).given["trainable"]
    assert needs["CPU"] == 0, "a trial that holds CPUs keeps its own ranks waiting"
    trial({"train_loop_config": {"lr": 0.1}})
    ((config, run, context),) = trainer.fitted
    assert config == {"lr": 0.1, "epochs": 5}
    assert run == RunConfig("s3://ray", None, "TorchTrainer_today-7f_00003", ["mine", "reports"])
    assert (context.run_config, context.train_loop_config) == (run, config)
    assert context.run_id is not trainer.train_run_context.run_id
    assert trainer.train_loop_config == {"lr": 1.0, "epochs": 5}, "the next trial starts from the same"


def test_trials_are_called_after_the_trainer_and_kept_where_it_keeps_its_checkpoints(
    ray_tune: RayTune,
) -> None:
    given = ray_tune.tune(TorchTrainer()).given
    assert given["trainable"][0].__name__ == "TorchTrainer"
    assert given["run_config"] == ray_tune.of_tune("s3://ray")


def test_a_run_config_of_tune_stays_and_one_of_train_names_the_store(ray_tune: RayTune) -> None:
    own = ray_tune.of_tune("s3://ray/mine", name="mine")
    assert ray_tune.tune(TorchTrainer(), run_config=own).given["run_config"] is own
    other = RunConfig("s3://ray/other")
    assert ray_tune.tune(TorchTrainer(), run_config=other).given["run_config"] == ray_tune.of_tune(
        "s3://ray/other"
    )


@pytest.mark.parametrize(
    ("ranks", "needs", "trials"),
    [
        (1, {"GPU": 0.5, "CPU": 4}, 4),
        (1, {"GPU": 1, "CPU": 8}, 2),
        (2, {"GPU": 0.5, "CPU": 4}, 2),
        ((2, 4), {"CPU": 8}, 1),
        (4, {"GPU": 1}, 1),  # more than there is: Ray says so, of one trial
    ],
)
def test_as_many_trials_go_on_at_once_as_the_nodes_can_hold(
    ray_tune: RayTune, ranks: Any, needs: Any, trials: int
) -> None:
    tuner = ray_tune.tune(TorchTrainer(ranks=ranks, needs=needs))
    assert ray_tune.joined == 0
    assert tuner.fit() == trials
    assert ray_tune.joined == 1


def test_who_says_how_many_trials_go_on_at_once_gets_so_many(ray_tune: RayTune) -> None:
    assert ray_tune.tune(TorchTrainer(), most=3).fit() == 3


def test_a_function_is_left_to_ray(ray_tune: RayTune) -> None:
    given = ray_tune.tune(len, run_config=None).given
    assert (given["trainable"], given["run_config"]) == (len, None)
    assert ray_tune.tune(len).fit() is None


def test_what_only_the_old_ray_tuned_is_refused(ray_tune: RayTune) -> None:
    with pytest.raises(ValueError, match="'train_loop_config', not 'scaling_config'"):
        ray_tune.tune(TorchTrainer(), param_space={"train_loop_config": {}, "scaling_config": 1})


def test_rays_own_trainers_are_known_by_their_class() -> None:
    trainers = pytest.importorskip("ray.train.torch")
    made = object.__new__(trainers.TorchTrainer)
    assert tuned_trainer.is_trainer(made)
    assert not tuned_trainer.is_trainer(trainers.TorchTrainer)
