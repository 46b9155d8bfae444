"""A command whose output is read while it runs."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

OnLine = Callable[[str], None]

END_SECONDS = 10.0
"""How long a command that is given up may take to end by itself."""

DRAIN_SECONDS = 2.0
"""How long output may still come once the command has ended: what it has started can hold the pipe."""


def stream(
    argv: Sequence[str],
    on_line: OnLine,
    *,
    timeout: float,
    env: Mapping[str, str],
    cwd: Path | None = None,
    grace: float = END_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Run a command without input; `on_line` gets each line of both its streams, in this thread.

    At the deadline, or when interrupted, or when `on_line` raises, it is ended with all of its process
    group: by SIGTERM, and after `grace` seconds by SIGKILL. Raises OSError, TimeoutExpired.
    """
    deadline = time.monotonic() + timeout
    child = subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=dict(env),
        cwd=cwd,
        start_new_session=True,
    )
    assert child.stdout is not None
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(child.stdout, lines), daemon=True).start()
    said: list[str] = []
    try:
        while (line := _next(lines, child, deadline, argv, timeout)) is not None:
            said.append(line)
            on_line(line.rstrip("\r\n"))
        code = child.wait(max(DRAIN_SECONDS, deadline - time.monotonic()))
        return subprocess.CompletedProcess(argv, code, "".join(said))
    except BaseException:
        try:
            _signal(child, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(grace)
        finally:
            _signal(child, signal.SIGKILL)
            child.wait()
        raise


def _read(pipe: IO[str], lines: queue.SimpleQueue[str | None]) -> None:
    with contextlib.suppress(ValueError, OSError):
        for line in pipe:
            lines.put(line)
    lines.put(None)


def _next(
    lines: queue.SimpleQueue[str | None],
    child: subprocess.Popen[str],
    deadline: float,
    argv: Sequence[str],
    timeout: float,
) -> str | None:
    """The next line, or None when no more will come. Raises TimeoutExpired."""
    quiet_since: float | None = None
    while True:
        try:
            return lines.get(timeout=0.2)
        except queue.Empty:
            now = time.monotonic()
            if child.poll() is not None:
                quiet_since = now if quiet_since is None else quiet_since
                if now - quiet_since >= DRAIN_SECONDS:
                    return None
            if now >= deadline:
                raise subprocess.TimeoutExpired(list(argv), timeout) from None


def _signal(child: subprocess.Popen[str], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)
