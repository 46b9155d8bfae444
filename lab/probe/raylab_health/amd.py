"""What the kernel says of an AMD GPU: the files of its device in sysfs, found by its render node."""

from __future__ import annotations

import re

from raylab_health.model import Context, LostError, NotHereError, UnreadableError


def folder(context: Context, device: str) -> str:
    """The folder of a GPU called like `renderD128`, below the root. Raises LostError."""
    path = f"sys/class/drm/{device}/device"
    if not (context.root / path).is_dir():
        raise LostError(f"/{path} is gone")
    return path


def read(context: Context, device: str, name: str) -> str:
    """One file of it. Raises LostError, NotHereError."""
    return context.text(f"{folder(context, device)}/{name}")


def number(context: Context, device: str, name: str) -> float:
    """The first number in a file of it. Raises LostError, NotHereError, UnreadableError."""
    text = read(context, device, name)
    match = re.search(r"\d+(\.\d+)?", text)
    if match is None:
        raise UnreadableError(f"{name}: no number in {text[:40]!r}")
    return float(match[0])


def sensor(context: Context, device: str, name: str) -> float:
    """A value of its sensors (hwmon), in the kernel's unit. Raises what `number` raises."""
    home = folder(context, device)
    for place in sorted((context.root / home / "hwmon").glob("hwmon*")):
        if (place / name).is_file():
            return number(context, device, f"hwmon/{place.name}/{name}")
    raise NotHereError(f"/{home}/hwmon has no {name}")
