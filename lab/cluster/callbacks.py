"""Every callback that the lab names in RAY_TRAIN_CALLBACKS: what it does there, and where it is named.

Ray Train loads them in every job of the lab. With stock Ray only those stay that record, and the one without
which simulated and shared GPUs cannot train at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lab.topology import GpuPlan, LabSpec, Vendor

VARIABLE = "RAY_TRAIN_CALLBACKS"

STOCK_VARIABLE = "LAB_STOCK_CALLBACKS"
"""The variable of compose/stock-ray.yaml with the callbacks of a lab with stock Ray."""


class Trade(Enum):
    """What a callback is there for."""

    RECORDS = "records"
    """Writes down what happens, and fails on purpose where a fault was armed. Ray behaves as without it."""
    GPUS = "gpus"
    """Lets simulated and shared GPUs train, and does nothing on GPUs of their own."""
    CHANGES = "changes"
    """Ray Train behaves otherwise than its own, or what the callback leaves makes it do so later."""


@dataclass(frozen=True)
class Callback:
    """One callback by its full name."""

    name: str
    trade: Trade


CALLBACKS = (
    Callback("raylab_ledger.train.Ledger", Trade.RECORDS),
    Callback("raylab_compat.simulated_gpu.SimulatedGpu", Trade.GPUS),
    Callback("raylab_patches.checkpoint_guard.Intact", Trade.CHANGES),
    Callback("raylab_forks.learn.Learn", Trade.CHANGES),
    Callback("raylab_patches.elastic.Elastic", Trade.CHANGES),
    Callback("raylab_patches.teardown.Teardown", Trade.CHANGES),
)


def callbacks(spec: LabSpec) -> str:
    """The value of VARIABLE in a lab like this: all of them, or what stays with stock Ray."""
    return stock_callbacks(spec.gpu) if spec.stock_ray else _names(set(Trade))


def stock_callbacks(gpu: GpuPlan) -> str:
    """The callbacks of a lab with stock Ray and these GPUs."""
    stand_in = gpu.shared or gpu.vendor is Vendor.SIMULATED
    return _names({Trade.RECORDS, Trade.GPUS} if stand_in else {Trade.RECORDS})


def _names(trades: set[Trade]) -> str:
    return ",".join(callback.name for callback in CALLBACKS if callback.trade in trades)
