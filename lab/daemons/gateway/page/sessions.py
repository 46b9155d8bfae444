"""Sessions of browsers: a signed cookie each, which outlives a restart of the gateway."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.host.clock import WALL, Clock
from lab.people.registry import Person, Registry

COOKIE = "raylab_class"

SESSION_SECONDS = 8 * 3600
"""Longest life of a session."""

FORM = re.compile(r"([a-z0-9]{1,24})\.(\d{10,12})\.[A-Za-z0-9_-]{16}")
"""A cookie before its signature: name, end in seconds since the epoch, and what makes it unique."""


@dataclass(frozen=True)
class Session:
    """The session of a person."""

    person: Person
    cookie: str = field(repr=False)
    form_key: str = field(repr=False)
    """What every form of this session sends along; another site cannot know it."""
    ends_at: int


class Sessions:
    """Makes sessions and checks them. One ends with her token, with her removal, and with time."""

    def __init__(self, registry: Registry, secret: str, clock: Clock = WALL) -> None:
        """`secret` and the hash of a person's token make the key of her signatures."""
        self._registry, self._secret, self._clock = registry, secret, clock
        self._ended: dict[str, int] = {}
        """Cookies of those who signed out, and the time until which each would be good."""

    def begin(self, person: Person) -> Session:
        """A new session."""
        ends_at = int(self._clock()) + SESSION_SECONDS
        content = f"{person.name}.{ends_at}.{secrets.token_urlsafe(12)}"
        return self._session(person, content, ends_at)

    def of(self, cookies: Mapping[str, str]) -> Session | None:
        """The session of a request; None for one that has ended, or that nobody began. Raises StateError."""
        content, _, signature = cookies.get(COOKIE, "").rpartition(".")
        match = FORM.fullmatch(content)
        person = self._registry.people().get(match[1]) if match else None
        if match is None or person is None or person.leaving:
            return None
        session = self._session(person, content, int(match[2]))
        said = f"{content}.{signature}".encode(errors="surrogateescape")  # as aiohttp decodes headers
        good = hmac.compare_digest(session.cookie.encode(), said)
        over = session.ends_at <= self._clock() or session.cookie in self._ended
        return session if good and not over else None

    def end(self, session: Session) -> None:
        """End a session before its time."""
        now = self._clock()
        self._ended = {cookie: until for cookie, until in self._ended.items() if until > now}
        self._ended[session.cookie] = session.ends_at

    def _session(self, person: Person, content: str, ends_at: int) -> Session:
        key = f"{self._secret} {person.token_sha256}".encode()
        cookie = f"{content}.{_signed(key, f'session {content}')}"
        return Session(person, cookie, _signed(key, f"form {content}"), ends_at)


def _signed(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
