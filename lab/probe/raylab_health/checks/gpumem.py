"""The GPU's memory and arithmetic: DAXPY and DGEMM, compared with results that are known exactly."""

from __future__ import annotations

from raylab_health.model import EVICT, GPU, PASS, Check, Context, Finding, NotHereError

SECONDS = 300.0


def run(context: Context, device: str) -> Finding:
    """EVICT for a wrong result."""
    if context.vendor not in ("nvidia", "amd"):
        raise NotHereError("there is no GPU to compute with")
    measured = context.measure("raylab_health.gpu_compute", device, seconds=SECONDS)
    wrong = [str(name) for name in measured["wrong"]]
    message = f"wrong result of {' and '.join(wrong)}" if wrong else ""
    return Finding(
        EVICT if wrong else PASS, float(bool(wrong)), "", message, {"bytes": measured.get("bytes")}
    )


CHECK = Check("gpumem", GPU, 4 * 3600.0, run, deadline=SECONDS + 5, invasive=True, hung=EVICT)
