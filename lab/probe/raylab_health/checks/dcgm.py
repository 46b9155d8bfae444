"""NVIDIA's own diagnostics, `dcgmi diag`, where DCGM is installed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from raylab_health.model import EVICT, GPU, PASS, WARN, Check, Context, Finding, NotHereError, UnreadableError
from raylab_health.nvml import ask

FATAL = ("pcie", "nvlink", "ecc", "gpu memory", "memory")
"""Tests that, failed, make a GPU EVICT; other failures are WARN. The list is Autopilot's."""

SECONDS = 180.0
"""Level 1 takes some of them, beside what runs. The runner ends what takes longer, so that it is WARN."""


def run(context: Context, device: str) -> Finding:
    """EVICT or WARN for tests of level 1 that fail on this GPU."""
    if context.vendor != "nvidia":
        raise NotHereError("dcgmi is for NVIDIA's GPUs")
    index = ask(context, device, "nvmlDeviceGetIndex")
    argv = ("dcgmi", "diag", "-r", "1", "-i", str(index), "-j")
    code, output = context.command(argv, SECONDS + 5)
    try:
        failed = sorted(set(failures(json.loads(output[output.index("{") :]))))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableError(f"dcgmi ended with {code}: {' '.join(output.split())[:200]}") from error
    fatal = [name for name in failed if name.lower() in FATAL]
    state = EVICT if fatal else WARN if failed else PASS
    message = f"failed: {', '.join(fatal or failed)}" if failed else ""
    return Finding(state, float(bool(failed)), "", message)


def failures(document: Any) -> Iterator[str]:
    """Names of the tests with a result that is a failure, wherever the version of DCGM has them."""
    if isinstance(document, dict):
        results = document.get("results")
        if "name" in document and isinstance(results, list):
            said = [str(result.get("status", result.get("result", ""))).lower() for result in results]
            if any(word.startswith("fail") for word in said):
                yield str(document["name"])
        for part in document.values():
            yield from failures(part)
    elif isinstance(document, list):
        for part in document:
            yield from failures(part)


CHECK = Check("dcgm", GPU, 3600.0, run, deadline=SECONDS)
