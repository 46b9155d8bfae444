"""Following a source beside the serving: a source that hangs or fails never delays an answer."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from lab.errors import LabError

T = TypeVar("T")

POLL_SECONDS = 2.0
"""Pause between two looks. Prometheus asks every 5 s."""

STALE_SECONDS = 15.0
"""How old the last good look may be for its figures to be served."""


def log(line: str) -> None:
    """One line on stderr, which is the service's log."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class Follower(Generic[T]):
    """Looks at a source again and again, and remembers the last good look."""

    def __init__(
        self,
        name: str,
        read: Callable[[], T],
        *,
        clock: Callable[[], float] = time.time,
        say: Callable[[str], None] = log,
    ) -> None:
        """`read` raises when the source fails; `say` gets a line when that begins and when it is over."""
        self.name, self._read, self._clock, self._say = name, read, clock, say
        self.latest: T | None = None
        """What the last good look brought, however old."""
        self.good_at: float | None = None
        """When that was, in seconds since the epoch."""
        self.failed = False
        """Whether the last look failed."""
        self.errors = 0
        """Looks that failed since the start."""

    @property
    def up(self) -> bool:
        """Whether the last look was good, and is not old."""
        return not self.failed and self.current is not None

    @property
    def current(self) -> T | None:
        """What the last good look brought, unless it is too old to be served."""
        if self.good_at is None or self._clock() - self.good_at > STALE_SECONDS:
            return None
        return self.latest

    def look(self) -> None:
        """Look once. Raises nothing."""
        try:
            latest = self._read()
        except Exception as error:  # whatever another version of Ray or of the store answers: serving goes on
            self.errors += 1
            why = error.message if isinstance(error, LabError) else repr(error)
            if not self.failed:
                self._say(f"{self.name}: {why}")
            self.failed = True
            return
        if self.failed:
            self._say(f"{self.name}: answers again")
        self.latest, self.good_at, self.failed = latest, self._clock(), False

    def follow(self, stop: threading.Event) -> None:
        """Look until `stop` is set, in a thread of its own."""

        def run() -> None:
            while not stop.is_set():
                self.look()
                stop.wait(POLL_SECONDS)

        threading.Thread(target=run, name=f"raylab-metrics-{self.name}", daemon=True).start()
