"""A machine under load: busy loops, writers to its disk, little memory; and a lab that stands still."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from lab.lab import Lab
from lab.services import HEAD, is_node

BUSY = """
import os, sys
for _ in range(int(sys.argv[1]) - 1):
    if os.fork() == 0:
        break
while True:
    pass
"""

WRITE = """
import os, sys
block = os.urandom(1 << 20)
while True:
    with open(sys.argv[1], "wb") as file:
        for _ in range(256):
            file.write(block)
        os.fsync(file.fileno())
"""

TAKE = """
import sys, time, psutil
free, block, held = int(sys.argv[1]), 1 << 26, []
while True:
    left = psutil.virtual_memory().available
    if left > free + block:
        held.append(b"1" * block)
    elif left < free and held:
        held.pop()
    else:
        time.sleep(0.1)
"""


@contextlib.contextmanager
def machine_under_load(
    busy: int, writers: int = 0, free_bytes: int = 0, *, together: int = 1
) -> Iterator[None]:
    """Keep so many loops and writers running, and only so much memory available (0: as it is).

    So many loops `together` are a session: the kernel shares the cores among sessions, of which a lab of
    processes has one for each service, and all containers are one.
    """
    with tempfile.TemporaryDirectory(prefix="raylab-load-") as folder:
        loops = [min(together, busy - begun) for begun in range(0, busy, together)]
        commands = [
            *([BUSY, str(count)] for count in loops),
            *([WRITE, f"{folder}/{number}"] for number in range(writers)),
            *([TAKE, str(free_bytes)] for _ in range(1 if free_bytes else 0)),
        ]
        running = []
        try:
            for command in commands:
                running.append(subprocess.Popen([sys.executable, "-c", *command], start_new_session=True))
            yield
        finally:
            for process in running:
                os.killpg(process.pid, signal.SIGKILL)
            for process in running:
                process.wait()


def stand_still(lab: Lab, seconds: float) -> None:
    """Freeze every service of a lab as if its machine stood still, though one service after the other.

    The head stands still for longest, so that it sees no node that stands still alone.
    """
    names = [status.service for status in lab.status().services]
    names.sort(key=lambda name: (name == HEAD, not is_node(name)))
    try:
        for name in reversed(names):
            lab.runtime.pause(name)
        time.sleep(seconds)
    finally:
        for name in names:
            lab.runtime.resume(name)
