"""Time for code that waits: a clock that can be read and slept on, and the two ways to poll."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from lab.errors import WaitTimeoutError

T = TypeVar("T")

POLL_SECONDS = 0.5
"""Pause between two looks, unless a caller has a reason for another."""


class Clock(Protocol):
    """A source of time in seconds that can also wait. Tests pass one whose seconds pass only in `sleep`."""

    def __call__(self) -> float:
        """The time in seconds."""

    def sleep(self, seconds: float) -> None:
        """Wait that long."""


class SystemClock:
    """The machine's own time."""

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read

    def __call__(self) -> float:
        return self._read()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


WALL = SystemClock(time.time)
"""Seconds since the Unix epoch: for times that are compared with recorded ones. It jumps when it is set."""

MONOTONIC = SystemClock(time.monotonic)
"""Seconds since some moment: for deadlines and durations."""


def poll(
    look: Callable[[], T | None],
    *,
    timeout: float,
    waited_for: str,
    clock: Clock = MONOTONIC,
    every: float = POLL_SECONDS,
    state: Callable[[], str] = str,
    hint: str = "",
) -> T:
    """Call `look` until it returns something other than None, and return that.

    The last look comes when `timeout` seconds have passed. Raises WaitTimeoutError that names what was
    `waited_for`, how long, and what `state` returns then: the last status, the last lines of a log.
    """
    value = settle(look, lambda value: value is not None, timeout=timeout, clock=clock, every=every)
    if value is None:
        detail = state()
        raise WaitTimeoutError(
            f"{waited_for}: not within {timeout:g} s{f': {detail}' if detail else ''}", hint
        )
    return value


def settle(
    look: Callable[[], T],
    done: Callable[[T], bool],
    *,
    timeout: float,
    clock: Clock = MONOTONIC,
    every: float = POLL_SECONDS,
) -> T:
    """Call `look` until `done` accepts what it returns or `timeout` seconds have passed; return the last.

    For waits whose end without success is an answer too, not an error.
    """
    deadline = clock() + timeout
    while True:
        value = look()
        now = clock()
        if done(value) or now >= deadline:
            return value
        clock.sleep(min(every, deadline - now))
