"""A process whose output is followed line by line, and that does not outlive an interrupt."""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from lab.host import command

TICK = 0.5
"""Seconds between two looks at a process that says nothing."""


class Run(Protocol):
    """Runs a process to its end, and ends it when interrupted."""

    def __call__(
        self,
        argv: list[str],
        env: Mapping[str, str],
        on_line: Callable[[str], None],
        on_tick: Callable[[], None],
        keep: int | None,
    ) -> int:
        """The exit code. `on_line` gets each line of its output; `keep` is a descriptor that it inherits."""


def run_process(
    argv: list[str],
    env: Mapping[str, str],
    on_line: Callable[[str], None],
    on_tick: Callable[[], None],
    keep: int | None = None,
) -> int:
    """The Run of a real machine. Raises OSError when the program cannot be started."""
    process: subprocess.Popen[str] = command.start(
        argv,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        pass_fds=() if keep is None else (keep,),
    )
    output = process.stdout
    assert output is not None
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        for line in output:
            lines.put(line.rstrip("\n"))
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    try:
        while True:
            try:
                line = lines.get(timeout=TICK)
            except queue.Empty:
                on_tick()
                continue
            if line is None:
                return process.wait()
            on_line(line)
    except BaseException:
        _end(process)
        raise


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
