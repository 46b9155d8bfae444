"""The table of patches: each is on where it is for, and RAYLAB_PATCHES_OFF alone turns each off."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

import pytest

from lab.extension import probes
from lab.host.files import PROBE
from raylab_switches import OFF, PATCHES, active

NAMES = [patch.name for patch in PATCHES]


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


def test_each_patch_is_a_module_of_the_probe_and_each_module_of_patches_is_in_the_table() -> None:
    modules = {file.stem for root in probes() for file in root.glob("raylab_*/*.py")}
    packages = {folder.name for root in probes() for folder in root.glob("raylab_*/")}
    for patch in PATCHES:
        assert patch.name in modules or f"raylab_{patch.name}" in packages, patch.name
    treating = {file.stem for file in (PROBE / "raylab_patches").glob("*.py")} - {"__init__"}
    assert treating <= set(NAMES)


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


# `simulated_gpu`, `redis_password` and `ray_start` that are off: see the tests of these modules.
