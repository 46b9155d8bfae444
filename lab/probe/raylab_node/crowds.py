"""Bounds what one job runs on a node of a class: one that forks without end costs itself, and not the node.

A container without rights over the machine can make no control group for each job, and RLIMIT_NPROC counts
all of a Unix user's processes, those of other nodes too. So the node's first process looks every second, and
kills a process group that is too large: Ray gives each entrypoint and each rank one of its own. A program
that makes further groups on purpose escapes it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from raylab_node import companion

MOST = 4000
"""Most processes and threads of one group: half of what a container of a node may have."""

LOOK_SECONDS = 1.0

SAID = "TooManyProcessesError: this part of the job ran {} processes and threads, it may run {}: killed\n"


def end_crowds(
    proc: Path = Path("/proc"),
    kill: Callable[[int, int], None] = os.killpg,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Kill every group of this node's that is too large, and tell its standard error why."""
    groups: dict[int, list[tuple[str, int]]] = {}
    for pid in filter(str.isdigit, os.listdir(proc)):
        with contextlib.suppress(OSError, IndexError):  # it has ended
            fields = (proc / pid / "stat").read_bytes().rpartition(b") ")[2].split()
            groups.setdefault(int(fields[2]), []).append((pid, int(fields[17])))
    for group, members in groups.items():
        size = sum(threads for _, threads in members)
        if size > MOST and group not in (0, os.getpgrp()) and _is_ours(proc / members[0][0], environ):
            companion.say(f"process group {group} is killed: it has {size} processes and threads")
            with contextlib.suppress(OSError), open(proc / members[0][0] / "fd" / "2", "a") as log:
                log.write(SAID.format(size, MOST))
            with contextlib.suppress(OSError):
                kill(group, signal.SIGKILL)


def _is_ours(process: Path, environ: Mapping[str, str]) -> bool:
    """Tell whether a process is of this node, or forked for its lab; in a container all others are."""
    mark = environ.get("RAYLAB_SERVICE", "")
    if not mark:
        return True
    names = {"RAYLAB_SERVICE": mark, "RAYLAB_FORK_SERVER_OF": mark.rpartition(":")[0]}
    try:
        own = (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(f"{name}={value}".encode() in own for name, value in names.items())


def watching(
    sleep: Callable[[float], None],
    clock: Callable[[], float] = time.monotonic,
    look: Callable[[], None] = end_crowds,
) -> Callable[[float], None]:
    """A sleep that looks for crowds, once in LOOK_SECONDS."""
    latest = clock()

    def watch(seconds: float) -> None:
        nonlocal latest
        sleep(seconds)
        if clock() - latest >= LOOK_SECONDS:
            latest = clock()
            look()

    return watch
