"""Exhausts a node's memory, or its disk for temporary files, until its ranks have failed.

    python -m raylab_faults.hog start memory|disk PID...
    python -m raylab_faults.hog stop memory|disk

`start` leaves a process behind that takes memory up to FULL of the container's limit, where Ray (threshold
0.95) or the kernel ends the ranks; or that fills the folder TMPDIR with a file. It gives everything back as
soon as the ranks PID... are gone, when it is told to stop, and after MAX_SECONDS at the latest. `start`
returns when it is full, `stop` when all has been given back. Each prints one JSON object as
`raylab_faults.rank` does, with the same exit codes.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from raylab_faults import rank

FULL = 0.98
"""Share of the memory limit, page cache left out, as Ray's memory monitor counts."""

MAX_SECONDS = 600.0
FILL_SECONDS = 45.0
"""Deadline for it to be full."""

STOP_SECONDS = 10.0
POLL_SECONDS = 0.1
CHUNK = 32 << 20
"""Bytes that are taken at a time."""

NOTES = Path("/tmp")
CGROUP = Path("/sys/fs/cgroup")
NO_LIMIT = 1 << 60
"""Version 1 of cgroups writes a number beyond it where there is no limit."""

FILE = "raylab-fill"
WHAT = ("memory", "disk")


class Memory:
    """Takes memory of the container."""

    def __init__(self, cgroup: Path = CGROUP) -> None:
        """Read the limit of the container's memory. Raises OSError where it has none."""
        self._new = (cgroup / "memory.max").exists()
        self._folder = cgroup if self._new else cgroup / "memory"
        self._held: list[bytearray] = []
        limit = self._number("memory.max" if self._new else "memory.limit_in_bytes")
        if limit >= NO_LIMIT:
            raise OSError(errno.ENOTSUP, "the memory of this node has no limit")
        self.target = int(limit * FULL)

    def used(self) -> int:
        """Bytes in use without the page cache, which the kernel takes away first."""
        prefix = "" if self._new else "total_"
        cache = {f"{prefix}inactive_file", f"{prefix}active_file"}
        lines = (self._folder / "memory.stat").read_text().splitlines()
        cached = sum(int(line.split()[1]) for line in lines if line.split()[0] in cache)
        return self._number("memory.current" if self._new else "memory.usage_in_bytes") - cached

    def take(self) -> bool:
        """Take one more chunk; returns whether it is full."""
        missing = self.target - self.used()
        if missing <= 1 << 20:
            return True
        self._held.append(bytearray(b"\x01") * min(missing, CHUNK))
        return False

    def give_back(self) -> None:
        self._held.clear()

    def _number(self, name: str) -> int:
        text = (self._folder / name).read_text().strip()
        return NO_LIMIT if text == "max" else int(text)


class Disk:
    """Takes the space of the folder for temporary files, with one file."""

    def __init__(self, folder: Path | None = None, write: Callable[[int, bytes], int] = os.write) -> None:
        self.path = (folder or Path(tempfile.gettempdir())) / FILE
        self._write, self._size = write, CHUNK
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)

    def take(self) -> bool:
        """Write one more piece, ever smaller ones at the end; returns whether it is full."""
        try:
            self._write(self._file, bytes(self._size))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            if self._size == 1:
                return True
            self._size = max(self._size // 8, 1)
        return False

    def give_back(self) -> None:
        os.close(self._file)
        self.path.unlink(missing_ok=True)


def hold(
    thing: Any,
    pids: Sequence[int],
    stopped: Callable[[], bool],
    full: Callable[[], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    gone: Callable[[int], bool] = rank.gone,
) -> None:
    """Keep `thing` full until every process of `pids` is gone, `told()` says so, or MAX_SECONDS have passed.

    `full` is called once. Everything is given back when this returns, whatever happens.
    """
    deadline, said = clock() + MAX_SECONDS, False
    try:
        while clock() < deadline and not stopped() and not all(gone(pid) for pid in pids):
            if thing.take():
                if not said:
                    full()
                said = True
                sleep(POLL_SECONDS)
    finally:
        thing.give_back()


def note(what: str) -> Path:
    """The file that names the process which holds `what`."""
    return NOTES / f"raylab-hog-{what}.json"


def start(what: str, pids: Sequence[int]) -> str:
    """Leave a process behind that holds; returns the problem, or nothing."""
    stop(what)
    process = subprocess.Popen(
        [sys.executable, "-m", "raylab_faults.hog", "hold", what, *map(str, pids)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    note(what).write_text(json.dumps({"pid": process.pid, "started": rank.start_time(process.pid)}))
    ready, _, _ = select.select([process.stdout], [], [], FILL_SECONDS)
    line = process.stdout.readline().decode(errors="replace").strip() if ready else ""
    if line in ("full", "over"):
        return ""
    stop(what)
    return line or f"the node's {what} was not full after {FILL_SECONDS:g} s"


def stop(what: str) -> str:
    """End the process that holds, and remove what it left; returns the problem, or nothing."""
    try:
        entry = json.loads(note(what).read_text())
        pid, started = int(entry["pid"]), str(entry["started"])
    except (OSError, ValueError, KeyError, TypeError):
        pid, started = 0, ""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not _lives(pid, started):
            break
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + STOP_SECONDS
        while _lives(pid, started) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
    if _lives(pid, started):
        return f"process {pid} holds the node's {what} and cannot be ended"
    if what == "disk":
        (Path(tempfile.gettempdir()) / FILE).unlink(missing_ok=True)
    note(what).unlink(missing_ok=True)
    return ""


def _lives(pid: int, started: str) -> bool:
    import psutil

    try:
        return pid > 0 and not rank.gone(pid) and rank.start_time(pid) == started
    except psutil.Error:
        return False


def _hold(what: str, pids: Sequence[int]) -> int:
    """The process that is left behind."""
    signals: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: signals.append(True))
    said: list[bool] = []

    def full() -> None:
        said.append(True)
        print("full", flush=True)

    try:
        hold(Memory() if what == "memory" else Disk(), pids, lambda: bool(signals), full)
    except OSError as error:
        print(f"the node's {what} cannot be taken: {error}", flush=True)
        return rank.NOT_SENT
    if not said:
        print("over", flush=True)  # the ranks were gone before it was full
    return 0


def main(argv: Sequence[str]) -> int:
    """Start, stop or hold; print the answer; return the exit code."""
    known = len(argv) >= 2 and argv[1] in WHAT and all(pid.isdecimal() for pid in argv[2:])
    if not known or argv[0] not in ("start", "stop", "hold") or (len(argv) > 2) is (argv[0] == "stop"):
        print(f"usage: {__doc__}")
        return 2
    action, what, pids = argv[0], argv[1], [int(pid) for pid in argv[2:]]
    if action == "hold":
        return _hold(what, pids)
    try:
        if action == "stop":
            return rank.answer(0, stop(what), rank.NOT_SENT)
        for pid in pids:
            if why := rank.problem(pid):
                return rank.answer(pid, why)
        return rank.answer(pids[0], start(what, pids), rank.NOT_SENT)
    except OSError as error:
        return rank.answer(0, f"the node's {what} cannot be taken: {error}", rank.NOT_SENT)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
