"""What the kernel says of an AMD GPU: the files of its device in sysfs, found by its render node."""

from __future__ import annotations

from raylab_health.model import Context, LostError


def folder(context: Context, device: str) -> str:
    """The folder of a GPU called like `renderD128`, below the root. Raises LostError."""
    path = f"sys/class/drm/{device}/device"
    if not (context.root / path).is_dir():
        raise LostError(f"/{path} is gone")
    return path


def read(context: Context, device: str, name: str) -> str:
    """One file of it. Raises LostError, NotHereError, UnreadableError."""
    return context.text(f"{folder(context, device)}/{name}")
