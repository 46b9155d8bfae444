"""Tokens of requests, and the pace at which wrong ones are answered."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence

from lab.host.clock import MONOTONIC, Clock

HEADERS = ("Authorization", "X-Ray-Authorization")
"""Headers in which Ray's clients send a token; the second is for proxies that need the first themselves."""

FORWARDED = "X-Forwarded-For"
"""Header in which the class's proxy says for whom it asks, in place of what the client says of itself."""

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 2.0
HALF_LIFE_SECONDS = 30.0
"""Time in which the number of wrong tokens that is remembered halves."""

MOST_WAITING = 200
"""Refusals that wait at the same time; whoever comes then is refused at once, unread."""

LOG_SECONDS = 10.0
"""Shortest time between two lines of the log."""


def token_of(headers: Mapping[str, str]) -> str:
    """The token that a request bears; empty where it bears none."""
    for name in HEADERS:
        scheme, _, token = headers.get(name, "").partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            return token.strip()
    return ""


def origin(peer: str | None, forwarded: Sequence[str]) -> str:
    """Words for where a request comes from: the peer, and for whom it says that it asks.

    Only the log shows it. Whoever asks the gateway past the proxy is the peer, whatever it says.
    """
    said = ", ".join(forwarded)
    asks = f", for {said}" if re.fullmatch(r"[0-9A-Fa-f.:, ]{1,100}", said) else ""
    return f"{peer or 'an unknown address'}{asks}"


class Seldom:
    """Writes lines of one kind to the log, but not one for every request."""

    def __init__(self, say: Callable[[str], None], clock: Clock = MONOTONIC) -> None:
        self._say, self._clock, self._said_at = say, clock, float("-inf")

    def __call__(self, line: str) -> bool:
        """Write a line, unless there was one in the last seconds; returns if it was written."""
        now = self._clock()
        due = now - self._said_at >= LOG_SECONDS
        if due:
            self._said_at = now
            self._say(line)
        return due


class Slowdown:
    """Makes wrong tokens wait: the longer, the more there were lately. A right one never waits."""

    def __init__(self, say: Callable[[str], None], clock: Clock = MONOTONIC) -> None:
        self._say, self._clock = Seldom(say, clock), clock
        self._recent, self._at = 0.0, clock()
        self._unsaid, self._latest, self._later = 0, "", False
        self.waiting = 0
        """Refusals that wait now."""

    @property
    def full(self) -> bool:
        """True while no further refusal may wait."""
        return self.waiting >= MOST_WAITING

    async def hold_back(self, origin: str, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> bool:
        """Let the answer to a wrong token from there wait; False, at once, where too many wait already.

        `pause` waits so many seconds.
        """
        seconds = self.wrong(origin)
        self._tell_later()
        if self.full:
            return False
        self.waiting += 1
        try:
            await pause(seconds)
        finally:
            self.waiting -= 1
        return True

    def wrong(self, origin: str) -> float:
        """Seconds for which the answer to a wrong token from there is to be held back."""
        now = self._clock()
        self._recent *= 0.5 ** ((now - self._at) / HALF_LIFE_SECONDS)
        self._at = now
        self._recent += 1
        self._unsaid += 1
        self._latest = origin
        self._tell()
        return min(LONGEST_SECONDS, FIRST_SECONDS * self._recent)

    def _tell(self) -> None:
        """Log what was not logged yet, unless there was a line a moment ago."""
        count = "a wrong token" if self._unsaid == 1 else f"{self._unsaid} wrong tokens"
        if self._unsaid and self._say(f"{count}, the latest from {self._latest}"):
            self._unsaid = 0

    def _tell_later(self) -> None:
        """Have the running loop log the rest: nobody may guess again."""

        def tell() -> None:
            self._later = False
            self._tell()
            self._tell_later()

        if self._unsaid and not self._later:
            self._later = True
            asyncio.get_running_loop().call_later(LOG_SECONDS, tell)
