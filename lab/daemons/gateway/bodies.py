"""Bodies of requests: size, speed and number, so that nobody takes all of the gateway's memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.cluster.packing import MAX_PACKAGE_BYTES
from lab.daemons.gateway.upstream import Body
from lab.errors import LabError, RefusedError, UsageError
from lab.host.reading import DOCUMENT
from lab.people.policy import Action, Whose, allowed
from lab.people.registry import Person

if TYPE_CHECKING:
    from aiohttp import web

BODY_BYTES = 2 << 20
"""Size of the largest body that is neither a package nor a teacher's objects."""

BODY_SECONDS = 30.0
PACKAGE_SECONDS = 120.0
"""Deadlines of a body, from its turn to its last byte."""

MOST_PACKAGES = 2
"""Packages in memory at the same time, of one person one; others wait unread."""

MOST_HANDLED = 4
"""Other bodies that are worked on at the same time, once they were read."""

MOST_WAITING = 50
"""Requests of a person that wait for their turn; further ones are refused."""

PACKAGES = ("/api/packages/gcs/", "/packages/")
"""Beginnings of the paths to which packages are sent."""

OBJECTS = ("/apply", "/delete")
"""Pages that take a teacher's objects."""


class TooLargeError(UsageError):
    """A body is larger than its page takes."""


class SlowError(LabError):
    """A body comes too slowly."""


class TooManyError(RefusedError):
    """Too many requests of one person are under way, or too many of her jobs."""


@dataclass
class _Present:
    turn: asyncio.Semaphore
    count: int = field(default=0)


class Turns:
    """Lets a few requests of each person go on at the same time."""

    def __init__(self, most: int, waiting: int) -> None:
        """Beyond `most` they wait for their turn, beyond `waiting` of those they are refused."""
        self._most, self._waiting = most, waiting
        self._persons: dict[str, _Present] = {}

    @contextlib.asynccontextmanager
    async def turn(self, person: str) -> AsyncIterator[None]:
        """The turn of one request. Raises TooManyError."""
        present = self._persons.setdefault(person, _Present(asyncio.Semaphore(self._most)))
        if present.count >= self._most + self._waiting:
            raise TooManyError(f"{person} has {present.count} such requests under way", "end some of them")
        present.count += 1
        try:
            async with present.turn:
                yield
        finally:
            present.count -= 1
            if not present.count:
                del self._persons[person]


class Bodies:
    """Reads bodies, and counts those that are in memory."""

    def __init__(self) -> None:
        self._packages = asyncio.Semaphore(MOST_PACKAGES)
        self._handled = asyncio.Semaphore(MOST_HANDLED)
        self._own = Turns(1, MOST_WAITING)

    @contextlib.asynccontextmanager
    async def read(self, request: web.Request, person: Person) -> AsyncIterator[Body]:
        """The body of a request, for as long as it is needed. Raises TooLargeError, SlowError."""
        if not request.can_read_body:
            yield b""
        elif request.method == "PUT" and request.path.startswith(PACKAGES):
            async with self._own.turn(person.name), self._packages:
                yield await read_body(request, MAX_PACKAGE_BYTES, PACKAGE_SECONDS)
        else:
            large = request.path in OBJECTS and allowed(person.role, Action.CHANGE_QUEUES, Whose.SHARED)
            body = await read_body(request, DOCUMENT if large else BODY_BYTES, BODY_SECONDS)
            async with self._handled:
                yield body


async def read_body(request: web.Request, most: int, seconds: float) -> Body:
    """The body of a request, of so many bytes at most. Raises TooLargeError, SlowError."""
    if (request.content_length or 0) > most:
        raise _too_large(most)
    try:
        return await asyncio.wait_for(_all(request, most), seconds)
    except asyncio.TimeoutError as error:
        raise SlowError(f"the body of the request did not come within {seconds:g} s", "try again") from error


async def _all(request: web.Request, most: int) -> Body:
    body = bytearray()
    while chunk := await request.content.readany():
        if len(body) + len(chunk) > most:
            raise _too_large(most)
        body += chunk
    return body


def _too_large(most: int) -> TooLargeError:
    return TooLargeError(f"the body of the request is larger than {most >> 20} MiB")
