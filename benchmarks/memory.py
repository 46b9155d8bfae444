"""Memory of all processes of a lab, idle and while two ranks train. By PSS each page counts once.

One lab is up at a time: pages that two labs share would count half in each.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil

from benchmarks.checkouts import CliLab, Side, cli_lab, sides
from benchmarks.compare import Figures, Found, LostError, Measure, by_turns
from benchmarks.measure import say
from lab.runtime.local.processes import FORK_SERVER_OF, MARK, memory

SETTLE_SECONDS = 30.0
"""Time for a new lab to settle before its idle memory is measured."""

CHECKPOINTS, DEADLINE_SECONDS, POLL_SECONDS = 3, 300.0, 2.0
"""Number of checkpoints before a training is measured, the timeout for that, and the poll interval."""

LOOKS, LOOK_SECONDS = 3, 2.0
"""Number of samples, whose median is the figure, and the seconds between them."""

Table = Mapping[int, tuple[int, str]]
"""Process id -> its parent's id, and its mark: empty if it has none or the mark cannot be read."""


def run(runs: int, against: Path | None) -> tuple[Found, list[Side]]:
    """Measure the megabytes of each side, in turn."""
    compared = sides(against, stock=True)
    steps: dict[str, dict[str, Measure]] = {"lab": {side.name: _lab(side) for side in compared}}
    return by_turns(steps, runs, say), compared


def _lab(side: Side) -> Measure:
    def measure() -> Figures:
        with cli_lab(side) as lab:
            lab.up()
            time.sleep(SETTLE_SECONDS)
            yield "lab at rest", megabytes(lab)
            job = lab.submit("digits", {"epochs": "10000", "workers": "2"})
            _until_it_trains(lab, job)
            yield "two ranks training", megabytes(lab)

    return measure


def _until_it_trains(lab: CliLab, job: str) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    while lab.checkpoints(job) < CHECKPOINTS:
        if time.monotonic() > end:
            raise LostError(f"job {job} has not saved {CHECKPOINTS} checkpoints after {DEADLINE_SECONDS:g} s")
        time.sleep(POLL_SECONDS)


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
        new = [child for child in _of(children, pid) if child not in known and table[child][1] in ("", ":")]
        known.update(new)
        pids += new
    return sorted(pids)


def _of(children: Mapping[int, list[int]], pid: int) -> Iterable[int]:
    return children.get(pid, ())


def _is_of(folder: Path, mark: str) -> bool:
    return mark.rpartition(":")[0] == str(folder)
