"""The disk where programs of this node write: the time that a small write takes to reach it."""

from __future__ import annotations

import os
import tempfile

from raylab_health.model import CPU, NODE, PASS, WARN, Check, Context, Finding

SLOW_SECONDS = 5.0
"""A healthy disk takes milliseconds; one that others write to at full speed a few tenths of a second."""

BYTES = 64 * 1024
TRIES = 3


def run(context: Context, device: str = CPU) -> Finding:
    """WARN when the best of several small writes, each flushed, is slow or fails."""
    best = float("inf")
    try:
        with tempfile.TemporaryFile(dir=context.scratch) as file:
            for _ in range(TRIES):
                begin = context.monotonic()
                file.write(b"\0" * BYTES)
                file.flush()
                os.fsync(file.fileno())
                best = min(best, context.monotonic() - begin)
                if best <= SLOW_SECONDS / 50:
                    break  # fast enough: a healthy disk is not written to more than is needed
    except OSError as error:
        return Finding(WARN, None, "ms", f"{context.scratch} cannot be written to: {error.strerror}")
    message = (
        f"a write of {BYTES // 1024} KiB to {context.scratch} takes {best:.1f} s"
        if best > SLOW_SECONDS
        else ""
    )
    return Finding(WARN if message else PASS, round(best * 1000, 3), "ms", message)


CHECK = Check("disk-latency", NODE, 30.0, run, deadline=60.0)
