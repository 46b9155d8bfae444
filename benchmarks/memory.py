"""Memory of all processes of a lab. By PSS each page counts once."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from benchmarks.cli_lab import CliLab
from lab.runtime.local.processes import FORK_SERVER_OF, MARK, memory

LOOKS, LOOK_SECONDS = 3, 2.0
"""Number of samples, whose median is the figure, and the seconds between them."""

Table = Mapping[int, tuple[int, str]]
"""Process id -> its parent's id, and its mark: empty if it has none or the mark cannot be read."""


def megabytes(lab: CliLab) -> float:
    """The memory of all processes of a lab, the median of some samples."""
    looks = []
    for _ in range(LOOKS):
        time.sleep(LOOK_SECONDS)
        looks.append(sum(map(_memory, processes_of(lab.folder, _table()))) / 1e6)
    return statistics.median(looks)


def _memory(pid: int) -> int:
    try:
        return memory(psutil.Process(pid))
    except psutil.Error:  # it has ended
        return 0


def _table() -> dict[int, tuple[int, str]]:
    table = {}
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            mark = environment.get(MARK, "") or f"{environment.get(FORK_SERVER_OF, '')}:"
        except psutil.Error:
            mark = ""
        try:
            table[process.pid] = (process.ppid(), mark)
        except psutil.Error:
            continue
    return table


def processes_of(folder: Path, table: Table) -> list[int]:
    """Find the processes of a lab: those with its mark, and their descendants without another mark."""
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    pids = [pid for pid, (_, mark) in table.items() if _is_of(folder, mark)]
    known = set(pids)
    for pid in pids:  # grows while it is walked: descendants of descendants
        below = (child for child in children.get(pid, ()) if child not in known)
        new = [child for child in below if table[child][1] in ("", ":")]
        known.update(new)
        pids += new
    return sorted(pids)


def _is_of(folder: Path, mark: str) -> bool:
    return mark.rpartition(":")[0] == str(folder)
