"""The patches as a lab has them: which are off, and which callbacks Ray Train loads for them."""

from __future__ import annotations

import re

import pytest

import raylab_switches
from lab.cluster.patches import CALLBACKS_VARIABLE, OFF_VARIABLE, RECORDER, callbacks, patches, switched_off
from lab.errors import UsageError
from lab.extension import probes
from lab.topology import LabSpec

STOCK = LabSpec(stock_ray=True)


def test_the_table_and_its_variables_are_those_that_the_nodes_read() -> None:
    table = [vars(patch) for patch in raylab_switches.PATCHES]
    assert [vars(patch) for patch in patches()] == table
    assert (OFF_VARIABLE, CALLBACKS_VARIABLE) == (raylab_switches.OFF, raylab_switches.CALLBACKS)
    assert len({patch.name for patch in patches()}) == len(table)


def test_each_callback_is_a_class_of_the_probe_and_none_is_forgotten() -> None:
    classes = {
        f"{file.parent.name}.{file.stem}.{name}"
        for root in probes()
        for file in root.glob("raylab_*/*.py")
        for name in re.findall(r"^class (\w+)\([^)]*Callback", file.read_text(), re.MULTILINE)
    }
    named = callbacks().split(",")
    assert classes == set(named)
    assert named[0] == RECORDER


def test_every_patch_is_on_unless_a_caller_says_otherwise() -> None:
    assert switched_off(LabSpec(), {}) == ""
    assert switched_off(LabSpec(), {OFF_VARIABLE: " teardown, forks,"}) == "forks,teardown"
    with pytest.raises(UsageError, match="elastik"):
        switched_off(LabSpec(), {OFF_VARIABLE: "forks,elastik"})


def test_with_stock_ray_no_patch_is_on_in_containers_with_gpus_of_their_own() -> None:
    environ = {
        "RAYLAB_GPU": "nvidia",
        "RAYLAB_SERVICE_NAME": "ray-worker-0",
        "RAYLAB_FORK_FOLDER": "/tmp/raylab-forks",
        CALLBACKS_VARIABLE: callbacks(),
        OFF_VARIABLE: switched_off(STOCK, {}),
    }
    assert [p.name for p in patches() if raylab_switches.active(p.name, environ)] == []
    assert raylab_switches.in_training(environ, {"forkserver.child"}) == []


def test_with_stock_ray_only_patches_stay_that_have_a_reason_and_a_kind_of_lab() -> None:
    off = switched_off(STOCK, {OFF_VARIABLE: "redis_password"}).split(",")
    stay = [patch for patch in patches() if patch.name not in off]
    assert all(patch.stays and patch.where for patch in stay)
    assert {patch.name for patch in patches() if not patch.stays} | {"redis_password"} == set(off)
