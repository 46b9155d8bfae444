"""Follows a source in a loop of its own: a source that hangs or fails never delays an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from lab.errors import message_of
from lab.host.clock import WALL, Clock
from lab.host.serving import log

T = TypeVar("T")

POLL_SECONDS = 2.0
"""Pause between two polls. Prometheus asks every 5 s."""

STALE_SECONDS = 15.0
"""Age up to which the result of the last good poll is served."""


class Follower(Generic[T]):
    """Polls a source, and keeps the result of the last good poll."""

    def __init__(
        self,
        name: str,
        read: Callable[[], T],
        *,
        clock: Clock = WALL,
        say: Callable[[str], None] = log,
    ) -> None:
        """`read` raises when the source fails; `say` gets a line when that begins and when it is over."""
        self.name, self._read, self._clock, self._say = name, read, clock, say
        self.latest: T | None = None
        """Result of the last good poll, however old."""
        self.good_at: float | None = None
        """Time of that poll, in seconds since the epoch."""
        self.failed = False
        """True if the last poll failed."""

    @property
    def up(self) -> bool:
        """True if the last poll was good, and is not old."""
        return not self.failed and self.current is not None

    @property
    def current(self) -> T | None:
        """Result of the last good poll, unless it is too old to be served."""
        if self.good_at is None or self._clock() - self.good_at > STALE_SECONDS:
            return None
        return self.latest

    def look(self) -> float:
        """Poll once; returns the seconds until the next poll. A source that fails raises nothing."""
        try:
            latest = self._read()
        except Exception as error:  # whatever another version of Ray or of the store answers: serving goes on
            if not self.failed:
                self._say(f"{self.name}: {message_of(error)}")
            self.failed = True
            return POLL_SECONDS
        if self.failed:
            self._say(f"{self.name}: answers again")
        self.latest, self.good_at, self.failed = latest, self._clock(), False
        return POLL_SECONDS
