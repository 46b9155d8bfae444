"""Bandwidth from the host's memory to the GPU's, with CUDA's driver API in a process of its own."""

from __future__ import annotations

from raylab_health.model import GPU, PASS, WARN, Check, Context, Finding, NotHereError

THRESHOLD = 4.0
"""GB/s, Autopilot's default; RAYLAB_PCIE_GBPS sets another. Its advice: a quarter of the link's peak."""

SECONDS = 60.0
"""For all copies. The runner ends what takes longer, so that it is WARN."""

PAUSES = (0.0, 5.0, 5.0)
"""Times before each measurement; after one that is fast enough there is no other."""


def run(context: Context, device: str) -> Finding:
    """WARN when the best of several copies is slow each time. One that does not end is a sick GPU too."""
    if context.vendor != "nvidia":
        raise NotHereError("it is measured with CUDA's driver")
    best, limit = 0.0, float(context.environ.get("RAYLAB_PCIE_GBPS", THRESHOLD))
    for pause in PAUSES:
        context.sleep(pause)
        copied = context.measure("raylab_health.pcie_copy", device, seconds=SECONDS + 5)
        best = max(best, float(copied["gbps"]))
        if best >= limit:
            break
    message = f"{best:.1f} GB/s from host to GPU; at least {limit:g} are expected" if best < limit else ""
    return Finding(WARN if message else PASS, round(best, 3), "GB/s", message)


CHECK = Check("pciebw", GPU, 3600.0, run, deadline=SECONDS)
