"""Speed of the node's memory: a copy that is larger than a processor's caches."""

from __future__ import annotations

from raylab_health.model import CPU, NODE, PASS, WARN, Check, Context, Finding

THRESHOLD = 0.5
"""GB/s. One core of an old laptop copies 5: a tenth of that is a machine that swaps or is throttled."""

BYTES = 32 * 1024**2
TRIES = 4


def run(context: Context, device: str = CPU) -> Finding:
    """WARN when the best of several copies is slow, in CPU time: who else computes does not count."""
    source = bytearray(BYTES)
    target = bytearray(BYTES)
    best = float("inf")
    for _ in range(TRIES):
        begin = context.cpu_seconds()
        target[:] = source
        best = min(best, context.cpu_seconds() - begin)
    speed = BYTES / max(best, 1e-6) / 1e9
    message = (
        f"copies in memory reach {speed:.2f} GB/s; at least {THRESHOLD:g} are expected"
        if speed < THRESHOLD
        else ""
    )
    return Finding(WARN if message else PASS, round(speed, 3), "GB/s", message, {"bytes": BYTES})


CHECK = Check("memory-bandwidth", NODE, 600.0, run, deadline=30.0, worse_after=3, better_after=1)
