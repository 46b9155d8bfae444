"""Ends a process with all that descends from it."""

from __future__ import annotations

import contextlib
import os
import signal


def end_tree(pid: int) -> None:
    """Kill a process, the group that it leads, and all that descend from it."""
    tree = [pid]
    children = _children()
    for member in tree:  # grows while it is walked
        tree += children.get(member, ())
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    for member in tree:
        with contextlib.suppress(OSError):
            os.kill(member, signal.SIGKILL)


def _children() -> dict[int, list[int]]:
    """Process id -> those of its children."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    return children
