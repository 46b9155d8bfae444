"""Health in words: of a device, and of a node in one cell of a table."""

from __future__ import annotations

from collections.abc import Sequence

from lab.api.health import CPU, DeviceView, Result
from lab.cli import format
from lab.cluster.health import worst

SHORT = 12
"""Characters of a GPU's UUID that are shown."""


def device(name: str) -> str:
    """A device as a table shows it."""
    return name.removeprefix("GPU-")[:SHORT]


def by_node(devices: Sequence[DeviceView]) -> dict[str, str]:
    """Node -> `PASS`, or its worst state with device and reason: `EVICT (gpu-0: ecc)`."""
    return {
        node: device.state if device.state == "PASS" else f"{device.state} ({_why(device)})"
        for node, device in worst(devices).items()
    }


def _why(view: DeviceView) -> str:
    reason = view.reason or "not checked yet"
    return reason if view.device == CPU else f"{device(view.device)}: {reason}"


def value(check: Result) -> str:
    """The measured value of a check, with its unit; empty without one."""
    return "" if check.value is None else f"{check.value:.4g} {check.unit}".strip()


def since(at: float, now: float) -> str:
    """Time that has passed."""
    return format.seconds(max(0.0, now - at))
