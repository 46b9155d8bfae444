"""Clocks that the hardware lowers for want of power."""

from __future__ import annotations

from raylab_health.model import GPU, PASS, WARN, Check, Context, Finding, NotHereError
from raylab_health.nvml import ask

SLOWDOWN, THERMAL, BRAKE = 0x08, 0x40, 0x80
"""Bits of NVML's reasons: hw_slowdown, hw_thermal_slowdown, hw_power_brake_slowdown."""

TRIES, PAUSE_SECONDS = 3, 1.0


def run(context: Context, device: str) -> Finding:
    """WARN when hw_slowdown or hw_power_brake_slowdown is active each time, but for heat alone."""
    if context.vendor == "amd":
        raise NotHereError("the kernel does not say why an AMD GPU is slow")
    bad = slow(context, device)
    for _ in range(TRIES - 1):
        if not bad:
            break
        context.sleep(PAUSE_SECONDS)
        bad = slow(context, device)
    message = "the hardware lowers its clocks for want of power" if bad else ""
    return Finding(WARN if bad else PASS, float(bad), "", message)


def slow(context: Context, device: str) -> bool:
    """Tell whether the hardware lowers the clocks now, but for heat alone."""
    try:
        reasons = int(ask(context, device, "nvmlDeviceGetCurrentClocksEventReasons"))
    except NotHereError:  # the function's name before driver 535
        reasons = int(ask(context, device, "nvmlDeviceGetCurrentClocksThrottleReasons"))
    return bool(reasons & BRAKE or (reasons & SLOWDOWN and not reasons & THERMAL))


CHECK = Check("power-slowdown", GPU, 5.0, run)
