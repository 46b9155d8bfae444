"""Rows of the GPU's memory that were replaced by spare ones, or wait for a reset to be."""

from __future__ import annotations

from raylab_health import amd
from raylab_health.model import EVICT, GPU, PASS, WARN, Check, Context, Finding, NotHereError
from raylab_health.nvml import ask


def run(context: Context, device: str) -> Finding:
    """EVICT when no spare row is left; WARN while rows wait for a reset, as Autopilot has it."""
    if context.vendor == "amd":
        return _amd(context, device)
    try:
        _, _, pending, failed = ask(context, device, "nvmlDeviceGetRemappedRows")
    except NotHereError:  # before Ampere, memory is retired in pages
        pending = ask(context, device, "nvmlDeviceGetRetiredPagesPendingStatus")
        return _finding(0, "", pending, "pages of its memory wait for a reset to be retired")
    broken = "a broken row of its memory could not be replaced"
    return _finding(failed, broken, pending, "rows of its memory wait for a reset to be replaced")


def _amd(context: Context, device: str) -> Finding:
    """Pages that are marked P (pending) or F (fault) in the kernel's list of bad pages."""
    lines = amd.read(context, device, "ras/gpu_vram_bad_pages").splitlines()
    marks = [line.split(":")[-1].strip() for line in lines]
    broken = "bad pages of its memory could not be retired"
    return _finding(marks.count("F"), broken, marks.count("P"), "bad pages of its memory wait to be retired")


def _finding(failed: int, broken: str, pending: int, waiting: str) -> Finding:
    state, message = (EVICT, broken) if failed else (WARN, waiting) if pending else (PASS, "")
    return Finding(state, float(bool(message)), "", message)


CHECK = Check("remapped", GPU, 30.0, run)
