"""Which callbacks of Ray Train a lab names."""

from __future__ import annotations

import re

import pytest

from lab.cluster.callbacks import CALLBACKS, Trade, callbacks
from lab.runtime.local.services import PROBE
from lab.topology import GpuAssignment, GpuPlan, LabSpec, Vendor, worker

LEDGER, GPU = "raylab_ledger.train.Ledger", "raylab_compat.simulated_gpu.SimulatedGpu"


def gpus(vendor: Vendor, *names: str) -> GpuPlan:
    return GpuPlan(vendor, tuple(GpuAssignment(worker(i), name) for i, name in enumerate(names)))


def test_a_lab_names_every_callback_and_the_recorder_first() -> None:
    assert callbacks(LabSpec()).split(",") == [callback.name for callback in CALLBACKS]
    assert [callback.name for callback in CALLBACKS if callback.trade is Trade.RECORDS] == [LEDGER]
    assert CALLBACKS[0].name == LEDGER


@pytest.mark.parametrize(
    ("plan", "kept"),
    [
        (gpus(Vendor.NONE), [LEDGER]),
        (gpus(Vendor.SIMULATED, "", ""), [LEDGER, GPU]),
        (gpus(Vendor.NVIDIA, "GPU-0", "GPU-1"), [LEDGER]),
        (gpus(Vendor.NVIDIA, "GPU-0", "GPU-0"), [LEDGER, GPU]),
    ],
)
def test_with_stock_ray_nothing_stays_that_changes_it(plan: GpuPlan, kept: list[str]) -> None:
    assert callbacks(LabSpec(gpu=plan, stock_ray=True)).split(",") == kept


def test_each_callback_is_a_class_of_the_probe_and_none_is_forgotten() -> None:
    found = set()
    for file in PROBE.glob("*/*.py"):
        for name in re.findall(r"^class (\w+)\([^)]*Callback", file.read_text(), re.MULTILINE):
            found.add(f"{file.parent.name}.{file.stem}.{name}")
    assert found == {callback.name for callback in CALLBACKS}


def test_a_receipt_names_just_the_callbacks_that_change_ray() -> None:
    from raylab_ledger.train import patches

    changing = [c.name.split(".") for c in CALLBACKS if c.trade is not Trade.RECORDS]
    named = [module for package, module, _ in changing if package != "raylab_forks"]  # told as `forks`
    assert patches(callbacks(LabSpec()), set[str]()) == named
