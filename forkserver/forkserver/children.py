"""Forks as psutil's children of whoever has started them.

A fork is a child of its server, and a launcher stands for it. Who walks through the children of a process, as
Ray's supervisor of a job does to stop them all, would come to the launcher, and not to what the fork has
started. Here psutil (5 to 7) finds a fork in the place of its launcher. The table of parents is internal to
psutil.
"""

from __future__ import annotations

from forkserver import launcher

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType


def stat_of(pid: int) -> tuple[str, int]:
    """The short name of a process, and when it was started in clock ticks; nothing when it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            named, _, rest = file.read().rpartition(")")
        return named.partition("(")[2], int(rest.split()[19])
    except (OSError, ValueError, IndexError):
        return "", 0


def adopted(parents: Mapping[int, int], stat: Callable[[int], tuple[str, int]]) -> dict[int, int]:
    """The table of process id -> parent with each fork where its launcher was.

    A process with a fork's id that is older than the launcher is another one: the launcher may be of a
    container, where ids are others.
    """
    after = dict(parents)
    for pid in parents:
        name, begin = stat(pid)
        fork = name[len(launcher.NAME) :] if name.startswith(launcher.NAME) else ""
        if fork.isdecimal() and int(fork) in parents and stat(int(fork))[1] >= begin:
            after[int(fork)] = after.pop(pid)
    return after


def follow(psutil: ModuleType) -> None:
    """Let this psutil find forks so; once is enough. Raises AttributeError where it has no such table."""
    if hasattr(psutil._ppid_map, "forkserver"):
        return
    look = psutil._ppid_map

    def _ppid_map() -> dict[int, int]:
        return adopted(look(), stat_of)

    _ppid_map.forkserver = True  # type: ignore[attr-defined]
    psutil._ppid_map = _ppid_map  # type: ignore[attr-defined]


CHANGES = {"psutil": follow}
