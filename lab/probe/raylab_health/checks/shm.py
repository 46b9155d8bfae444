"""Shared memory: Ray's object store and data loaders live in it."""

from __future__ import annotations

import os

from raylab_health.model import CPU, NODE, PASS, WARN, Check, Context, Finding, NotHereError

LEAST_BYTES = 256 * 1024**2
"""Docker gives a container 64 MiB unless told otherwise: less than one object store."""

FULL = 0.98


def run(context: Context, device: str = CPU) -> Finding:
    """WARN when it is too small, or full."""
    try:
        info = os.statvfs(context.root / "dev/shm")
    except OSError as error:
        raise NotHereError(f"/dev/shm: {error.strerror}") from error
    total, free = info.f_blocks * info.f_frsize, info.f_bavail * info.f_frsize
    message = ""
    if total < LEAST_BYTES:
        message = f"/dev/shm has {total / 1024**2:.0f} MiB; data loaders and Ray's object store need more"
    elif free < total * (1 - FULL):
        message = f"/dev/shm is full: {free / 1024**2:.0f} MiB are free"
    return Finding(WARN if message else PASS, round(free / 1e9, 3), "GB free", message, {"size": total})


CHECK = Check("shm", NODE, 30.0, run, worse_after=2)
