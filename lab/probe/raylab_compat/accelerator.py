"""Simulated GPUs for Lightning: `Trainer(accelerator="gpu")` trains on the CPU, in a script left as it is.

This does for Lightning what `simulated_gpu.py` does for Ray Train, in plain jobs and in Ray Train's workers.
Lightning (2.6) decides on the device in one class of the trainer and one of Fabric; both get the answer
before they look for a GPU. Nothing is imported before the script does so.
"""

from __future__ import annotations

import os
import sys

from raylab_compat.import_hooks import after_import
from raylab_switches import active

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

GPUS = ("gpu", "cuda")
SAID = "raylab: the GPUs of this lab are simulated: Lightning trains on the CPU"

_said: list[str] = []


def use_the_cpu(connector: Any) -> None:
    """Let this class of Lightning take the CPU for a GPU; once is enough."""
    from functools import wraps
    from inspect import signature

    original = connector.__init__
    if hasattr(original, "raylab"):
        return
    parameters = signature(original)

    @wraps(original)
    def init(*args: Any, **kwargs: Any) -> None:
        bound = parameters.bind(*args, **kwargs)
        bound.apply_defaults()
        chosen = bound.arguments
        kind, devices = choice(chosen["accelerator"], chosen["devices"], chosen["strategy"])
        if kind != chosen["accelerator"]:
            _say(chosen["accelerator"])
            chosen["accelerator"], chosen["devices"] = kind, devices
        original(*bound.args, **bound.kwargs)

    init.raylab = True  # type: ignore[attr-defined]
    connector.__init__ = init


def choice(asked: Any, devices: Any, strategy: Any = "auto") -> tuple[Any, Any]:
    """Accelerator and devices for what a script asks of simulated GPUs: the CPU, in as many processes.

    `auto` means the CPU too: a real GPU of the host stays out of a simulated lab. A strategy that brings its
    accelerator decides for itself.
    """
    by_strategy = asked == "auto" and getattr(strategy, "_accelerator", None) is not None
    if by_strategy or not (asked in (*GPUS, "auto") or type(asked).__name__ == "CUDAAccelerator"):
        return asked, devices
    if isinstance(devices, str) and "," in devices:
        devices = [device for device in devices.split(",") if device.strip()]
    if isinstance(devices, (list, tuple)):
        return "cpu", len(devices)
    return "cpu", 1 if devices in (-1, "-1", None) else devices


def _say(asked: Any) -> None:
    """Print SAID once in a job: in the first rank, and not where the script left the choice to Lightning."""
    if not _said and asked != "auto" and os.environ.get("RANK", "0") == "0":
        _said.append(SAID)
        print(SAID, file=sys.stderr, flush=True)


def _change_trainer(module: ModuleType) -> None:
    use_the_cpu(module._AcceleratorConnector)


def _change_fabric(module: ModuleType) -> None:
    use_the_cpu(module._Connector)


CHANGES = {
    "pytorch_lightning.trainer.connectors.accelerator_connector": _change_trainer,
    "lightning.pytorch.trainer.connectors.accelerator_connector": _change_trainer,
    "lightning_fabric.connector": _change_fabric,
    "lightning.fabric.connector": _change_fabric,
}
"""Module with the class that chooses accelerator and devices, of either package of Lightning."""


def install() -> None:
    """Change Lightning in this process if the patch is on; once is enough."""
    if active("accelerator"):
        after_import(CHANGES)
