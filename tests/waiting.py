"""Waiting in tests: for a condition or the end of a process, up to a deadline, never for a fixed time."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.1

PATIENCE = 300.0
"""Seconds for what takes up to 45 s on 2 idle cores."""


def eventually(
    condition: Callable[[], T],
    timeout: float,
    what: str,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """The first true value of `condition`, asked ten times a second.

    An exception counts as not yet. After `timeout` seconds the test fails, naming `what` was awaited and the
    last value or exception seen.
    """
    deadline = clock() + timeout
    while True:
        failure: Exception | None = None
        try:
            value = condition()
            if value:
                return value
            last = repr(value)
        except Exception as error:
            failure, last = error, repr(error)
        if clock() >= deadline:
            raise AssertionError(f"not within {timeout:g} s: {what}; last seen: {last}") from failure
        sleep(POLL_SECONDS)


def end_process(process: subprocess.Popen[bytes], timeout: float) -> None:
    """Ask a process to end, so that it can clean up, and kill it if it has not after `timeout` seconds."""
    process.terminate()
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
