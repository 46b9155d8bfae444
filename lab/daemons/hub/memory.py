"""Memory of one person: the largest of what she runs ends, while all takes more than she may have.

`python -m lab.daemons.hub.memory PID...` prints the bytes of each, as its own user may read them.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

import psutil

from lab.api.light import restore
from lab.daemons.hub import accounts
from lab.host.clock import MONOTONIC
from lab.host.reading import parse_json
from lab.runtime.local import processes

ASK_SECONDS = 10.0

LOOK_SECONDS = 5.0

Sizes = Callable[[Sequence[psutil.Process]], Mapping[int, int]]
"""Bytes of each of these processes, by its id."""


def marked(mark: str) -> list[psutil.Process]:
    """All that carries this mark, as of a look at the machine LOOK_SECONDS ago at most."""
    return _look(MONOTONIC() // LOOK_SECONDS).get(mark, [])


@lru_cache(maxsize=1)
def _look(number: float) -> dict[str, list[psutil.Process]]:
    """The look of that number: one for all people, since it reads every environment."""
    del number
    return processes.by_mark()


def shares(group: Iterable[psutil.Process]) -> dict[int, int]:
    """The share of each: what forked processes have in common counts once, divided among them."""
    return {process.pid: processes.memory(process) for process in group}


def shares_as(uid: int, group: Sequence[psutil.Process]) -> dict[int, int]:
    """The same, told by the user whose they are: in its container the hub may not read it.

    She may keep it from being told: then what they have in common counts in each.
    """
    argv = (sys.executable, "-m", __name__, *(str(process.pid) for process in group))
    try:
        sizes = restore(dict[str, int], parse_json(accounts.run_as(uid, argv, ASK_SECONDS)[1]))
    except (OSError, ValueError):
        sizes = {}
    return {process.pid: sizes.get(str(process.pid), _own(process)) for process in group}


def end_largest(group: Sequence[psutil.Process], server: int, most: int, exact: Sizes) -> str:
    """Kill the largest of these processes, but not that server, where all take more than `most` bytes.

    Where the server alone does, none ends: it would not help. `exact` is asked only where their own memory
    would be too much if they had nothing of it in common. Returns what to log; nothing where all is well.
    """
    if sum(map(_own, group)) <= most:
        return ""
    sizes = exact(group)
    if sum(sizes.values()) <= most:
        return ""
    if sizes.get(server, 0) > most:
        return f"takes more than {most / 2**30:g} GiB in the server alone, which is not ended"
    others = [process for process in group if process.pid != server]
    largest = max(others, key=lambda process: sizes.get(process.pid, 0))
    with contextlib.suppress(psutil.Error):
        name = largest.name()
        largest.kill()
        took = f"{sum(sizes.values()) / 2**30:.1f} of {most / 2**30:g} GiB"
        return f"took {took}: ended {name} ({largest.pid}), which had {sizes.get(largest.pid, 0) / 2**30:.1f}"
    return ""


def _own(process: psutil.Process) -> int:
    """Bytes in memory that a process does not have in common with files; 0 when it has ended."""
    try:
        info = process.memory_info()
    except psutil.Error:
        return 0
    return int(info.rss) - int(getattr(info, "shared", 0))  # Linux alone tells them apart


if __name__ == "__main__":
    living = [psutil.Process(int(pid)) for pid in sys.argv[1:] if psutil.pid_exists(int(pid))]
    sys.stdout.write(json.dumps(shares(living)))
