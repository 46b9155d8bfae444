"""The PCIe link's generation and width against the most that GPU and slot can do."""

from __future__ import annotations

from raylab_health import amd
from raylab_health.model import GPU, PASS, WARN, Check, Context, Finding
from raylab_health.nvml import ask

LOADED = 50.0
"""Utilization in percent from which the generation counts: an idle GPU lowers it to save power."""


def run(context: Context, device: str) -> Finding:
    """WARN for a link that is narrower than it could be, or slower while the GPU works."""
    if context.vendor == "amd":
        names = (
            "current_link_speed",
            "max_link_speed",
            "current_link_width",
            "max_link_width",
            "gpu_busy_percent",
        )
        speed, top, width, widest, load = (amd.number(context, device, name) for name in names)
        what = "GT/s"
    else:
        speed, top, width, widest = (
            float(ask(context, device, f"nvmlDeviceGet{which}PcieLink{what}"))
            for what in ("Generation", "Width")
            for which in ("Curr", "Max")
        )
        load = float(ask(context, device, "nvmlDeviceGetUtilizationRates").gpu)
        what = "generation"
    message = ""
    if 0 < width < widest:
        message = f"its PCIe link has {width:g} lanes of {widest:g}"
    elif load >= LOADED and 0 < speed < top:
        message = f"its PCIe link works with {what} {speed:g} under load; it can do {top:g}"
    seen = {"link": f"{speed:g}/{top:g} {what}", "width": f"{width:g}/{widest:g}", "utilization": load}
    return Finding(WARN if message else PASS, width, "lanes", message, seen)


CHECK = Check("pcie-link", GPU, 10.0, run, worse_after=2, better_after=3)
