"""Clocks that the hardware lowers: for want of power, or for heat."""

from __future__ import annotations

from raylab_health.model import GPU, PASS, WARN, Check, Context, Finding, NotHereError
from raylab_health.nvml import ask

SLOWDOWN, THERMAL, BRAKE = 0x08, 0x40, 0x80
"""Bits of NVML's reasons: hw_slowdown, hw_thermal_slowdown, hw_power_brake_slowdown."""


def power(context: Context, device: str) -> Finding:
    """WARN while hw_slowdown or hw_power_brake_slowdown is active, but for heat alone."""
    reasons = _reasons(context, device)
    bad = reasons & BRAKE or (reasons & SLOWDOWN and not reasons & THERMAL)
    return _finding(reasons, "the hardware lowers its clocks for want of power" if bad else "")


def thermal(context: Context, device: str) -> Finding:
    """WARN while hw_thermal_slowdown is active."""
    reasons = _reasons(context, device)
    return _finding(
        reasons, "the hardware lowers its clocks because it is too hot" if reasons & THERMAL else ""
    )


def _reasons(context: Context, device: str) -> int:
    if context.vendor == "amd":
        raise NotHereError("the kernel does not say why an AMD GPU is slow")
    try:
        return int(ask(context, device, "nvmlDeviceGetCurrentClocksEventReasons"))
    except NotHereError:  # the function's name before driver 535
        return int(ask(context, device, "nvmlDeviceGetCurrentClocksThrottleReasons"))


def _finding(reasons: int, message: str) -> Finding:
    return Finding(
        WARN if message else PASS, float(bool(message)), "", message, {"clocks_event_reasons": hex(reasons)}
    )


POWER = Check("power-slowdown", GPU, 5.0, power, worse_after=2, better_after=3)
THERMAL_SLOWDOWN = Check("thermal-slowdown", GPU, 5.0, thermal, worse_after=2, better_after=3)
