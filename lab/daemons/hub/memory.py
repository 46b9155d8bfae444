"""Memory of one person: the largest of what she runs ends, while all takes more than she may have."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import psutil


def descendants(pid: int) -> list[psutil.Process]:
    """A process and all that descends from it; nothing where it has ended."""
    with contextlib.suppress(psutil.Error):
        leader = psutil.Process(pid)
        return [leader, *leader.children(recursive=True)]
    return []


def own_bytes(process: psutil.Process) -> int:
    """Bytes in memory that a process does not have in common with files; 0 when it has ended."""
    try:
        info = process.memory_info()
    except psutil.Error:
        return 0
    return int(info.rss) - int(getattr(info, "shared", 0))  # Linux alone tells them apart


def end_largest(group: Iterable[psutil.Process], server: int, most: int) -> str:
    """Kill the largest of these processes, but not that server, where all take more than `most` bytes.

    Returns what was done, for a log; nothing where nothing was.
    """
    sizes = {process: own_bytes(process) for process in group}
    others = [process for process in sizes if process.pid != server]
    if sum(sizes.values()) <= most or not others:
        return ""
    largest = max(others, key=lambda process: sizes[process])
    with contextlib.suppress(psutil.Error):
        name = largest.name()
        largest.kill()
        took = f"{sum(sizes.values()) / 2**30:.1f} of {most / 2**30:g} GiB"
        return f"took {took}: ended {name} ({largest.pid}), which had {sizes[largest] / 2**30:.1f}"
    return ""
