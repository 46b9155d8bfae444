"""Health in words: of a device, and of a node in one cell of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.cli import format
from lab.cluster.health import CPU, worst

SHORT = 12
"""Characters of a GPU's UUID that are shown."""


def device(name: str) -> str:
    """A device as a table shows it."""
    return name.removeprefix("GPU-")[:SHORT]


def by_node(devices: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Node -> `PASS`, or its worst state with device and reason: `EVICT (gpu-0: ecc)`."""
    return {
        node: item["state"] if item["state"] == "PASS" else f"{item['state']} ({_why(item)})"
        for node, item in worst({"devices": devices}).items()
    }


def _why(item: dict[str, Any]) -> str:
    reason = str(item["reason"] or "not checked yet")
    return reason if item["device"] == CPU else f"{device(item['device'])}: {reason}"


def value(check: dict[str, Any]) -> str:
    """The measured value of a check, with its unit; empty without one."""
    return "" if check["value"] is None else f"{check['value']:.4g} {check['unit']}".strip()


def since(at: float, now: float) -> str:
    """Time that has passed."""
    return format.seconds(max(0.0, now - at))
