"""Forks as psutil's children of whoever has started them.

A fork is a child of its server, and a launcher stands for it. Who walks through the children of a process, as
Ray's supervisor of a job does to stop them all, would come to the launcher, and not to what the fork has
started. Here psutil (5 to 7) finds a fork in the place of its launcher. The table of parents is internal to
psutil.
"""

from __future__ import annotations

from raylab_forks import launcher
from raylab_switches import active

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType


def name_of(pid: int) -> str:
    """The short name of a process; empty when it is gone."""
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().rstrip("\n")
    except OSError:
        return ""


def adopted(parents: Mapping[int, int], name: Callable[[int], str]) -> dict[int, int]:
    """The table of process id -> parent with each fork where its launcher was."""
    after = dict(parents)
    for pid in parents:
        called = name(pid)
        fork = called[len(launcher.NAME) :] if called.startswith(launcher.NAME) else ""
        if fork.isdecimal() and int(fork) in parents:
            after[int(fork)] = after.pop(pid)
    return after


def follow(psutil: ModuleType) -> None:
    """Let this psutil find forks so; once is enough. Raises AttributeError where it has no such table."""
    if not active("forks") or hasattr(psutil._ppid_map, "raylab"):
        return
    look = psutil._ppid_map

    def _ppid_map() -> dict[int, int]:
        return adopted(look(), name_of)

    _ppid_map.raylab = True  # type: ignore[attr-defined]
    psutil._ppid_map = _ppid_map  # type: ignore[attr-defined]


CHANGES = {"psutil": follow}
