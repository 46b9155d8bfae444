"""The gateway as an aiohttp application: tokens, bodies, WebSockets."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from lab.cluster.submission import MAX_PACKAGE_BYTES
from lab.daemons.gateway.access import Access, Asked
from lab.daemons.gateway.ray_api import RayJobs
from lab.daemons.gateway.routes import TAIL, Routes, failure, names
from lab.daemons.gateway.tokens import Slowdown, token_of
from lab.daemons.gateway.upstream import HttpUpstream, Reply
from lab.errors import LabError
from lab.people.registry import Person, Registry

if TYPE_CHECKING:
    from aiohttp import web

HEALTH = "/healthz"
"""The one page without a token."""

MOST_UPLOADS = 4
"""Bodies that are in memory at the same time; others wait for their turn."""

HEARTBEAT_SECONDS = 20.0
"""Pause between two pings of a client that follows a log."""


def make_app(
    registry: Registry, ray: tuple[str, str], queue: str, say: Callable[[str], None]
) -> web.Application:
    """The application. `ray` is the dashboard's address and Ray's token, which the controller wants, too."""
    from aiohttp import ClientSession, web

    site = Site(registry, Slowdown(say), say)

    async def connected(app: web.Application) -> AsyncIterator[None]:
        async with ClientSession(trust_env=False) as session:
            upstreams = HttpUpstream(session, queue, ray[1]), HttpUpstream(session, *ray)
            site.open(Access(registry, *upstreams))
            yield

    app = web.Application(client_max_size=MAX_PACKAGE_BYTES)
    app.cleanup_ctx.append(connected)
    app.router.add_route("*", "/{path:.*}", site.serve)
    return app


class Site:
    """Handles requests; opened once there are connections to what is behind it."""

    def __init__(
        self,
        registry: Registry,
        slowdown: Slowdown,
        say: Callable[[str], None],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`say` gets lines of the log; `pause` waits so many seconds."""
        self._registry, self._slowdown, self._say, self._pause = registry, slowdown, say, pause
        self._uploads = asyncio.Semaphore(MOST_UPLOADS)

    def open(self, access: Access) -> None:
        """Begin to answer, with this way to the services behind."""
        self._jobs = RayJobs(access)
        self._routes = Routes(access, self._jobs)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        if request.path == HEALTH:
            return _response(Reply(200, b"{}"))
        try:
            person = self._registry.bearer(token_of(request.headers))
        except LabError as error:
            self._say(error.message)
            return _response(failure(request.path, error))
        if person is None:
            return await self._refused(request)
        if (match := TAIL.fullmatch(request.rel_url.raw_path)) is not None:
            return await self._tail(request, person, match)
        async with self._uploads if request.can_read_body else contextlib.nullcontext():
            asked = _asked(request, person, await request.read())
            reply = await self._routes.answer(asked)
        if reply.status == 502:
            self._say(f"{request.method} {request.path} of {person.name}: {reply.text[:300]}")
        return _response(reply)

    async def _refused(self, request: web.Request) -> web.Response:
        """Refuse a request without a token that is right, in Ray's words; a wrong one waits for it."""
        if not token_of(request.headers):
            return _response(Reply(401, b"Unauthorized: Missing authentication token", "text/plain"))
        seconds = self._slowdown.wrong(request.remote or "an unknown address")
        if self._slowdown.full:
            return _response(Reply(429, b"Too many wrong tokens: try again later", "text/plain"))
        self._slowdown.waiting += 1
        try:
            await self._pause(seconds)
        finally:
            self._slowdown.waiting -= 1
        return _response(Reply(403, b"Forbidden: Invalid authentication token", "text/plain"))

    async def _tail(self, request: web.Request, person: Person, match: re.Match[str]) -> web.StreamResponse:
        """Send a log until the job has ended, or the client is gone."""
        from aiohttp import WSCloseCode, web

        asked = _asked(request, person)
        try:
            (name,) = names(match)
            await self._jobs.check_tail(asked, name)
        except LabError as error:
            return _response(failure(request.path, error))
        socket = web.WebSocketResponse(heartbeat=HEARTBEAT_SECONDS)
        await socket.prepare(request)

        async def send() -> None:
            async for text in self._jobs.tail(asked, name):
                await socket.send_str(text)

        sending, leaving = asyncio.ensure_future(send()), asyncio.ensure_future(_gone(socket))
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if not sending.done():
            sending.cancel()
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            try:
                await sending
            except LabError as error:
                self._say(f"the log of {name} was given up: {error.message}")
                await socket.close(code=WSCloseCode.TRY_AGAIN_LATER)
        await socket.close()
        return socket


async def _gone(socket: web.WebSocketResponse) -> None:
    """Wait until the client has closed its end."""
    async for _ in socket:
        pass


def _asked(request: web.Request, person: Person, body: bytes = b"") -> Asked:
    url = request.rel_url
    return Asked(person, request.method, url.raw_path, url.raw_query_string, body)


def _response(reply: Reply) -> web.Response:
    from aiohttp import web

    headers = {"Cache-Control": "no-store", "Content-Type": f"{reply.kind}; charset=utf-8", **reply.headers}
    return web.Response(status=reply.status, body=reply.data, headers=headers)
