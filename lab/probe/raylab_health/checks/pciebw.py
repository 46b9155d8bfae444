"""Bandwidth from the host's memory to the GPU's, with CUDA's driver API in a process of its own."""

from __future__ import annotations

from raylab_health.model import GPU, PASS, WARN, Check, Context, Finding, NotHereError

THRESHOLD = 4.0
"""GB/s, Autopilot's default; RAYLAB_PCIE_GBPS sets another. Its advice: a quarter of the link's peak."""

SECONDS = 60.0


def run(context: Context, device: str) -> Finding:
    """WARN when the best of several copies is slow. A copy that does not end is a sick GPU too."""
    if context.vendor != "nvidia":
        raise NotHereError("it is measured with CUDA's driver")
    best = float(context.measure("raylab_health.pcie_copy", device, seconds=SECONDS)["gbps"])
    limit = float(context.environ.get("RAYLAB_PCIE_GBPS", THRESHOLD))
    message = f"{best:.1f} GB/s from host to GPU; at least {limit:g} are expected" if best < limit else ""
    return Finding(WARN if message else PASS, round(best, 3), "GB/s", message)


CHECK = Check("pciebw", GPU, 3600.0, run, deadline=SECONDS + 5)
