"""The GPU's memory and arithmetic: DAXPY and DGEMM, compared with results that are known exactly."""

from __future__ import annotations

import json

from raylab_health.gpu_compute import NO_TORCH
from raylab_health.model import EVICT, GPU, PASS, Check, Context, Finding, NotHereError, UnreadableError

SECONDS = 300.0


def run(context: Context, device: str) -> Finding:
    """EVICT for a wrong result."""
    if context.vendor not in ("nvidia", "amd"):
        raise NotHereError("there is no GPU to compute with")
    code, output = context.python("raylab_health.gpu_compute", device, seconds=SECONDS)
    if code == NO_TORCH:
        raise NotHereError(output.strip()[-200:])
    try:
        found = json.loads(output.splitlines()[-1])
        wrong = [str(each) for each in found["wrong"]]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise UnreadableError(f"the computation ended with {code}: {output.strip()[-200:]}") from error
    told = f"wrong result of {' and '.join(wrong)}" if wrong else ""
    return Finding(EVICT if wrong else PASS, float(bool(wrong)), "", told, {"bytes": found.get("bytes")})


CHECK = Check("gpumem", GPU, 4 * 3600.0, run, deadline=SECONDS + 5, invasive=True, hung=EVICT)
