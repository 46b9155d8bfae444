"""The switches of the patches of fast recovery: what each leaves of Ray, and what a training names."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import raylab_expectations

import raylab_switches
from raylab_switches import OFF, PATCHES, UNFIT, active, in_training, wanted

FORKED = {"forkserver.child"}


ALL = ",".join(patch.callback for patch in PATCHES if patch.callback)
EVERY = [
    "elastic",
    "teardown",
    "rendezvous",
    "datasets",
    "single_puts",
    "lone_vote",
    "survivors",
    "kept_memory",
]
SIMULATED = {"RAYLAB_GPU": "simulated", "RAYLAB_FORK_FOLDER": "/f", "RAY_TRAIN_CALLBACKS": ALL}


@pytest.mark.parametrize(
    ("environ", "loaded", "patches"),
    [
        (
            SIMULATED,
            FORKED,
            ["simulated_gpu", "accelerator", "checkpoint_guard", "forks", *EVERY],
        ),
        (
            {**SIMULATED, "RAYLAB_GPU": "none", OFF: ",".join(EVERY)},
            FORKED,
            ["checkpoint_guard", "forks"],
        ),
        ({"RAY_TRAIN_CALLBACKS": ALL}, set[str](), ["checkpoint_guard", *EVERY]),
        ({"RAY_TRAIN_CALLBACKS": "mine.Callback, raylab_recovery.elastic.Elastic"}, set[str](), ["elastic"]),
        ({**SIMULATED, "RAY_TRAIN_CALLBACKS": "mine.raylab_patches.Elastic"}, set[str](), ["accelerator"]),
        (
            {
                "RAYLAB_SERVICE_NAME": "ray-worker-0",
                "RAYLAB_REDIS_PASSWORD_FILE": "/p",
                "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            },
            set[str](),
            ["pip_environments", "ray_start", "listeners", "redis_password", "tuned_trainer", "revival"],
        ),
    ],
)
def test_a_training_names_the_patches_that_are_on_in_it(
    environ: dict[str, str], loaded: set[str], patches: list[str]
) -> None:
    assert in_training(environ, loaded) == patches


def test_a_patch_that_does_not_fit_the_nodes_ray_is_off_whatever_a_job_switches() -> None:
    environ = {**SIMULATED, UNFIT: "elastic, forks", OFF: "teardown"}
    assert active("datasets", environ)
    assert not active("elastic", environ)
    assert wanted("elastic", environ)
    assert not {"elastic", "forks", "teardown"} & set(in_training(environ, FORKED))


def test_where_nobody_has_looked_a_process_looks_by_itself_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looked: list[str] = []
    monkeypatch.setattr(raylab_switches, "_said", [])

    def unmet(name: str) -> str:
        looked.append(name)
        return "there is no such thing" if name == "elastic" else ""

    monkeypatch.setattr(raylab_expectations, "unmet", unmet)
    for _ in range(2):
        assert not active("elastic", {})
    said = "raylab: the patch elastic does not fit this Ray, and is off: there is no such thing\n"
    assert capsys.readouterr().out == said
    assert active("teardown", {})
    assert not active("forks", {}), "what is not for this process is not looked at"
    assert looked == ["elastic", "elastic", "teardown"]


ELASTIC = SimpleNamespace(scaling_config=SimpleNamespace(elasticity_enabled=True))


@pytest.mark.parametrize(
    ("name", "changes", "begin"),
    [
        ("checkpoint_guard", "guard", lambda patch: patch.in_the_controller("job")),
        ("elastic", "look_again", lambda patch: patch.Elastic().after_controller_start(ELASTIC)),
        ("teardown", "bear", lambda patch: patch.Teardown().after_controller_start(None)),
        ("rendezvous", "look_first", lambda patch: patch.Rendezvous().after_init_train_context()),
        ("datasets", "spare", lambda patch: patch.Datasets().after_controller_start(None)),
        ("single_puts", "ask_for_single_puts", lambda patch: pickle.loads(pickle.dumps(patch.SinglePuts()))),
    ],
)
def test_a_patch_of_a_training_that_is_off_leaves_ray_alone(
    monkeypatch: pytest.MonkeyPatch, name: str, changes: str, begin: Callable[[Any], object]
) -> None:
    pytest.importorskip("ray")
    from ray.train.torch import TorchConfig
    from ray.train.v2._internal.execution import context

    patch = importlib.import_module(f"raylab_recovery.{name}")
    changed: list[object] = []
    run = SimpleNamespace(backend_config=TorchConfig())
    monkeypatch.setattr(context, "get_train_context", lambda: SimpleNamespace(train_run_context=run))
    monkeypatch.setattr(patch, changes, lambda *_: changed.append(name))
    monkeypatch.setenv(OFF, name)
    begin(patch)
    assert changed == []
    monkeypatch.delenv(OFF)
    begin(patch)
    assert changed == [name]
