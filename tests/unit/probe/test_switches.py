"""The table of patches: each is on where it is for, and RAYLAB_PATCHES_OFF alone turns each off."""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import raylab_expectations

import raylab_switches
from raylab_switches import OFF, PATCHES, UNFIT, active, in_training, wanted

NAMES = [patch.name for patch in PATCHES]
FORKED = {"forkserver.child"}


def lab(name: str) -> dict[str, str]:
    """The environment of a process in a lab for which this patch is."""
    (patch,) = (patch for patch in PATCHES if patch.name == name)
    variable, value = patch.where[0] if patch.where else ("HOME", "/")
    return {variable: value or "/some/value"}


@pytest.mark.parametrize("name", NAMES)
def test_a_patch_is_on_where_it_is_for_until_its_name_is_among_those_that_are_off(name: str) -> None:
    (patch,) = (patch for patch in PATCHES if patch.name == name)
    others = ", ".join(other for other in NAMES if other != name)
    assert active(name, lab(name))
    assert active(name, {**lab(name), OFF: others})
    assert not active(name, {**lab(name), OFF: f"{others}, {name} "})
    if patch.where:
        assert not active(name, {})
        assert not active(name, {patch.where[0][0]: ""})


def test_one_of_several_values_is_enough_and_another_one_is_not() -> None:
    assert active("simulated_gpu", {"RAYLAB_GPU": "nvidia", "RAYLAB_GPU_SHARED": "1"})
    assert not active("simulated_gpu", {"RAYLAB_GPU": "nvidia", "RAYLAB_GPU_SHARED": "0"})


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
            ["simulated_gpu", "checkpoint_guard", "forks", *EVERY, "accelerator"],
        ),
        (
            {**SIMULATED, "RAYLAB_GPU": "none", OFF: ",".join(EVERY)},
            FORKED,
            ["checkpoint_guard", "forks"],
        ),
        ({"RAY_TRAIN_CALLBACKS": ALL}, set[str](), ["checkpoint_guard", *EVERY]),
        ({"RAY_TRAIN_CALLBACKS": "mine.Callback, raylab_patches.elastic.Elastic"}, set[str](), ["elastic"]),
        ({**SIMULATED, "RAY_TRAIN_CALLBACKS": "mine.raylab_patches.Elastic"}, set[str](), ["accelerator"]),
        (
            {
                "RAYLAB_SERVICE_NAME": "ray-worker-0",
                "RAYLAB_REDIS_PASSWORD_FILE": "/p",
                "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            },
            set[str](),
            ["revival", "pip_environments", "ray_start", "listeners", "redis_password", "tuned_trainer"],
        ),
    ],
)
def test_a_training_names_the_patches_that_are_on_in_it(
    environ: dict[str, str], loaded: set[str], patches: list[str]
) -> None:
    assert in_training(environ, loaded) == patches


def test_each_patch_is_a_module_of_the_probe_and_each_module_of_patches_is_in_the_table() -> None:
    probe = Path(raylab_switches.__file__).parent
    places = {file.stem: file.parent.name for file in probe.glob("raylab_*/*.py")}
    for patch in PATCHES:
        assert patch.name in places or (probe / f"raylab_{patch.name}").is_dir(), patch.name
    treating = {file.stem for file in (probe / "raylab_patches").glob("*.py")} - {"__init__"}
    assert treating <= set(NAMES)


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


# What each switch leaves of Ray


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("accelerator", "raylab_compat.accelerator"),
        ("resume", "raylab_compat.resume"),
        ("outside", "raylab_compat.outside"),
        ("tuned_trainer", "raylab_compat.tuned_trainer"),
        ("outage", "raylab_patches.outage"),
        ("pip_environments", "raylab_patches.pip_environments"),
    ],
)
def test_a_patch_of_modules_that_is_off_looks_at_no_import(
    monkeypatch: pytest.MonkeyPatch, name: str, module: str
) -> None:
    install: Callable[[], None] = importlib.import_module(module).install
    monkeypatch.setattr(sys, "meta_path", [])
    for variable in {variable for patch in PATCHES for variable, _ in patch.where}:
        monkeypatch.delenv(variable, raising=False)
    for variable, value in lab(name).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv(OFF, name)
    install()
    assert sys.meta_path == []
    monkeypatch.delenv(OFF)
    install()
    assert len(sys.meta_path) == 1


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

    patch = importlib.import_module(f"raylab_patches.{name}")
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


# `simulated_gpu`, `redis_password`, `ray_start` and `forks` that are off: see the tests of these modules.
