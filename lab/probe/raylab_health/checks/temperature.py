"""The GPU's temperature against the limits that its maker set."""

from __future__ import annotations

from collections.abc import Callable

from raylab_health import amd
from raylab_health.model import EVICT, GPU, PASS, WARN, Check, Context, Finding, NotHereError
from raylab_health.nvml import ask

SLOWDOWN, SHUTDOWN = 90.0, 105.0
"""Limits in degrees Celsius for a GPU that does not tell its own."""


def run(context: Context, device: str) -> Finding:
    """WARN from the temperature at which it slows down; EVICT from that at which it switches itself off."""
    if context.vendor == "amd":
        now = amd.sensor(context, device, "temp1_input") / 1000
        slow = _or(SLOWDOWN, lambda: amd.sensor(context, device, "temp1_crit") / 1000)
        off = _or(max(SHUTDOWN, slow), lambda: amd.sensor(context, device, "temp1_emergency") / 1000)
    else:
        now = float(ask(context, device, "nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"))
        slow = _or(SLOWDOWN, lambda: _limit(context, device, "SLOWDOWN"))
        off = _or(max(SHUTDOWN, slow), lambda: _limit(context, device, "SHUTDOWN"))
    state = EVICT if now >= off else WARN if now >= slow else PASS
    message = (
        f"{now:g} °C; it slows down at {slow:g} °C and switches off at {off:g} °C" if state != PASS else ""
    )
    return Finding(state, now, "°C", message, {"temperature": now, "slowdown": slow, "shutdown": off})


def _limit(context: Context, device: str, name: str) -> float:
    limit = f"NVML_TEMPERATURE_THRESHOLD_{name}"
    return float(ask(context, device, "nvmlDeviceGetTemperatureThreshold", limit))


def _or(default: float, read: Callable[[], float]) -> float:
    try:
        return read()
    except NotHereError:
        return default


CHECK = Check("temperature", GPU, 5.0, run, worse_after=2, better_after=3)
