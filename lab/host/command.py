"""The one runner of external commands. Each is a list of arguments, never a shell's line.

Before a command starts, its line goes to the logger `lab.host.command`, quoted so that it can be pasted into
a shell; `labctl --verbose` shows it.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import queue
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from lab.host.clock import MONOTONIC

log = logging.getLogger("lab.host.command")

OnLine = Callable[[str], None]

END_SECONDS = 10.0
"""Grace period between SIGTERM and SIGKILL for a command whose lines are read."""

ANSWER_END_SECONDS = 2.0
"""The same for one that is asked for an answer."""

DRAIN_SECONDS = 2.0
"""Grace period for reading output after the exit; a grandchild may hold the pipe open."""

LOOK_SECONDS = 0.2
"""Longest wait for a line before the command is looked at again."""


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
    with _start_piped(argv, env, cwd, merged=merged) as child:
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
    timeout: float = math.inf,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    grace: float = END_SECONDS,
    on_silence: Callable[[], None] = lambda: None,
    pass_fds: Sequence[int] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a command without input; `on_line` gets each line of both its streams, in this thread.

    `on_silence` is called again and again while no line comes; `pass_fds` are descriptors that it inherits.
    At the deadline, or when interrupted, or when `on_line` raises, it is ended with all of its process group:
    by SIGTERM, and after `grace` seconds by SIGKILL. Raises OSError, TimeoutExpired.
    """
    deadline = MONOTONIC() + timeout
    child = _start_piped(argv, env, cwd, merged=True, pass_fds=pass_fds)
    assert child.stdout is not None
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    stop_reading = threading.Event()
    threading.Thread(target=_read, args=(child.stdout, lines, stop_reading), daemon=True).start()
    output: list[str] = []
    try:
        for line in lines_until_end(lines, lambda: child.poll() is not None, timeout, on_silence=on_silence):
            output.append(line)
            on_line(line.rstrip("\r\n"))
        code = child.wait(max(DRAIN_SECONDS, deadline - MONOTONIC()))
        return subprocess.CompletedProcess(argv, code, "".join(output))
    except BaseException as error:
        _give_up(child, grace)
        child.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise subprocess.TimeoutExpired(list(argv), timeout) from None
        raise
    finally:
        stop_reading.set()


def lines_until_end(
    lines: queue.SimpleQueue[str | None],
    ended: Callable[[], bool],
    timeout: float,
    *,
    clock: Callable[[], float] = MONOTONIC,
    on_silence: Callable[[], None] = lambda: None,
) -> Iterator[str]:
    """Yield a command's lines until None says that no more will come, or DRAIN_SECONDS after it `ended`.

    Raises TimeoutExpired, without a command line, when it has not ended after `timeout` seconds.
    """
    deadline = clock() + timeout
    ended_at: float | None = None
    while True:
        now = clock()
        if ended_at is None and ended():
            ended_at = now
        if ended_at is None and now >= deadline:
            raise subprocess.TimeoutExpired((), timeout)
        if ended_at is not None and now - ended_at >= DRAIN_SECONDS:
            break
        try:
            line = lines.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            on_silence()
            continue
        if line is None:
            return
        yield line
    for _ in range(lines.qsize()):
        if (line := lines.get_nowait()) is not None:
            yield line


def _start_piped(
    argv: Sequence[str],
    env: Mapping[str, str] | None,
    cwd: Path | None,
    *,
    merged: bool,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[str]:
    return start(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merged else subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        env=None if env is None else dict(env),
        cwd=cwd,
        start_new_session=True,
        pass_fds=tuple(pass_fds),
    )


def _read(pipe: IO[str], lines: queue.SimpleQueue[str | None], stop_reading: threading.Event) -> None:
    """Read to the end, even what nobody wants: a descendant that goes on must not meet a full pipe."""
    with contextlib.suppress(ValueError, OSError):
        for line in pipe:
            if not stop_reading.is_set():
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
