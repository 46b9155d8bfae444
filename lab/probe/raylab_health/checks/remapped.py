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
        corrected, uncorrected, pending, failed = ask(context, device, "nvmlDeviceGetRemappedRows")
    except NotHereError:  # before Ampere, memory is retired in pages
        waits = ask(context, device, "nvmlDeviceGetRetiredPagesPendingStatus")
        message = "pages of its memory wait for a reset to be retired" if waits else ""
        return Finding(
            WARN if waits else PASS, float(bool(waits)), "", message, {"retired_pages.pending": waits}
        )
    seen = {
        "remapped_rows.correctable": corrected,
        "remapped_rows.uncorrectable": uncorrected,
        "remapped_rows.pending": pending,
        "remapped_rows.failure": failed,
    }
    if failed:
        return Finding(EVICT, 1.0, "", "a broken row of its memory could not be replaced", seen)
    message = "rows of its memory wait for a reset to be replaced" if pending else ""
    return Finding(WARN if pending else PASS, float(bool(pending)), "", message, seen)


def _amd(context: Context, device: str) -> Finding:
    """Pages that are marked P (pending) or F (fault) in the kernel's list of bad pages."""
    marks = [
        line.split(":")[-1].strip()
        for line in amd.read(context, device, "ras/gpu_vram_bad_pages").splitlines()
    ]
    counts = {mark: marks.count(mark) for mark in "RPF"}
    seen = {f"gpu_vram_bad_pages {mark}": count for mark, count in counts.items()}
    if counts["F"]:
        return Finding(EVICT, 1.0, "", f"{counts['F']} bad pages of its memory could not be retired", seen)
    message = f"{counts['P']} bad pages of its memory wait to be retired" if counts["P"] else ""
    return Finding(WARN if counts["P"] else PASS, float(bool(counts["P"])), "", message, seen)


CHECK = Check("remapped", GPU, 30.0, run)
