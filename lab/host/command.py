"""The one door for external commands: each is a list of arguments, never a shell's line, and can be echoed.

What is run is told to the logger `lab.host.command` before it starts; `labctl --verbose` shows it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

log = logging.getLogger("lab.host.command")

OnLine = Callable[[str], None]

END_SECONDS = 10.0
"""How long a command that is followed may take to end by itself when it is given up."""

ANSWER_END_SECONDS = 2.0
"""How long one that was asked for an answer may take."""

DRAIN_SECONDS = 2.0
"""How long output may still come once the command has ended: what it has started can hold the pipe."""

LOOK_SECONDS = 0.2
"""How often it is looked whether a silent command has ended."""


class PastDeadlineError(Exception):
    """The command has not ended in its time."""


def start(argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a command: `subprocess.Popen`, whose options these are, and the echo. Raises OSError."""
    log.info("%s", shlex.join(argv))
    return subprocess.Popen(list(argv), **options)


def run(
    argv: Sequence[str],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    merged: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a command that gets no input, and that Ctrl-C in the terminal does not reach.

    `merged`: both output streams are its stdout. At the deadline, or when interrupted, it is ended with all
    that it has started. Raises OSError, TimeoutExpired.
    """
    with start(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merged else subprocess.PIPE,
        text=True,
        errors="replace",
        env=None if env is None else dict(env),
        cwd=cwd,
        start_new_session=True,
    ) as child:
        try:
            out, err = child.communicate(timeout=timeout)
        except BaseException:
            _give_up(child, ANSWER_END_SECONDS)
            raise
    return subprocess.CompletedProcess(argv, child.returncode, out or "", err or "")


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
    child = start(
        argv,
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
    enough = threading.Event()
    threading.Thread(target=_read, args=(child.stdout, lines, enough), daemon=True).start()
    output = Output(lines, lambda: child.poll() is not None, deadline)
    said: list[str] = []
    try:
        while (line := output.next()) is not None:
            said.append(line)
            on_line(line.rstrip("\r\n"))
        code = child.wait(max(DRAIN_SECONDS, deadline - time.monotonic()))
        return subprocess.CompletedProcess(argv, code, "".join(said))
    except BaseException as error:
        _give_up(child, grace)
        child.wait()
        if isinstance(error, PastDeadlineError):
            raise subprocess.TimeoutExpired(list(argv), timeout) from None
        raise
    finally:
        enough.set()


class Output:
    """A command's lines as they come, until its deadline or until it has ended."""

    def __init__(
        self,
        lines: queue.SimpleQueue[str | None],
        ended: Callable[[], bool],
        deadline: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ended` says whether the command has, None among the lines that no more will come."""
        self._lines, self._ended, self._deadline, self._clock = lines, ended, deadline, clock
        self._ended_at: float | None = None
        self._owed: int | None = None
        """Lines to give yet, once none that come later count."""

    def next(self) -> str | None:
        """The next line, or None when no more will come. Raises PastDeadlineError."""
        while self._owed is None:
            now = self._clock()
            if self._ended_at is None and self._ended():
                self._ended_at = now
            if self._ended_at is None and now >= self._deadline:
                raise PastDeadlineError
            if self._ended_at is not None and now - self._ended_at >= DRAIN_SECONDS:
                self._owed = self._lines.qsize()
                break
            with contextlib.suppress(queue.Empty):
                return self._lines.get(timeout=LOOK_SECONDS)
        if not self._owed:
            return None
        self._owed -= 1
        return self._lines.get_nowait()


def _read(pipe: IO[str], lines: queue.SimpleQueue[str | None], enough: threading.Event) -> None:
    """Read to the end: a descendant that outlives the command must not meet a full pipe."""
    with contextlib.suppress(ValueError, OSError):
        for line in pipe:
            if not enough.is_set():
                lines.put(line)
    lines.put(None)


def _give_up(child: subprocess.Popen[str], grace: float) -> None:
    """End a command with all of its process group: by SIGTERM, and after `grace` seconds by SIGKILL."""
    try:
        _signal(child, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(grace)
    finally:
        _signal(child, signal.SIGKILL)


def _signal(child: subprocess.Popen[str], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)
