"""The gateway as an aiohttp application: tokens, bodies, WebSockets."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from lab.daemons.gateway.access import Access, Asked
from lab.daemons.gateway.bodies import Bodies, SlowError, TooLargeError, TooManyError, Turns
from lab.daemons.gateway.faults import Breaker
from lab.daemons.gateway.page import PAGE, ClassPage
from lab.daemons.gateway.page.receipts import OpenStore, ReceiptReader
from lab.daemons.gateway.page.sessions import Sessions
from lab.daemons.gateway.page.shared import Shared
from lab.daemons.gateway.ray_api import RayJobs
from lab.daemons.gateway.routes import TAIL, Routes, failure, names
from lab.daemons.gateway.tokens import FORWARDED, Seldom, Slowdown, origin, token_of
from lab.daemons.gateway.upstream import Body, HttpUpstream, Reply
from lab.errors import LabError, StateError
from lab.host.clock import MONOTONIC, WALL, Clock
from lab.host.http import ATTEMPTS_HEADER, UNREAD_HEADER
from lab.host.loops import HEALTH
from lab.people.registry import Person, Registry

if TYPE_CHECKING:
    from aiohttp import web

MOST_REQUESTS, MOST_WAITING = 8, 100
"""Requests of one person that are answered at the same time, and that wait for that."""

MOST_TAILS = 10
"""Logs that one person follows at the same time."""

RECHECK_SECONDS = 5.0
"""Pause between two looks at the token of somebody who follows a log."""

LARGE_BYTES = 64 << 10
SEND_SECONDS = 120.0
"""Answers beyond that size count as under way until they are sent, which may take that long."""

HEARTBEAT_SECONDS = 20.0
"""Pause between two pings of a client that follows a log."""


def make_app(
    registry: Registry,
    ray: tuple[str, str],
    queue: str,
    say: Callable[[str], None],
    open_store: OpenStore | None = None,
    breaker: Breaker | None = None,
) -> web.Application:
    """The application. `ray` is the dashboard's address and Ray's token, which the controller wants, too.

    `open_store` opens the object store with a person's key, `breaker` injects faults.
    """
    from aiohttp import ClientSession, TCPConnector, web

    site = Site(registry, Slowdown(say), say)

    async def connected(app: web.Application) -> AsyncIterator[None]:
        endless = TCPConnector(limit=0)  # a log that is followed keeps its connection
        async with (
            ClientSession(trust_env=False) as session,
            ClientSession(trust_env=False, connector=endless) as tails,
        ):
            upstreams = HttpUpstream(session, queue, ray[1]), HttpUpstream(session, *ray, tails=tails)
            site.open(Access(registry, *upstreams, breaker), ray[1], open_store)
            yield

    app = web.Application()
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
        clock: Clock = MONOTONIC,
        wall: Clock = WALL,
    ) -> None:
        """`say` gets lines of the log; `pause` waits so many seconds."""
        self._clock, self._wall, self._seen = clock, wall, dict[str, float]()
        self._registry, self._slowdown, self._say, self._pause = registry, slowdown, say, pause
        self._say_damaged = Seldom(say, clock)
        self._bodies = Bodies()
        self._requests, self._tails = Turns(MOST_REQUESTS, MOST_WAITING), Turns(MOST_TAILS, 0)

    def open(self, access: Access, secret: str = "", open_store: OpenStore | None = None) -> None:
        """Begin to answer, with this way to the services behind.

        `secret` is that of the sessions of browsers, `open_store` opens the object store with a key.
        """
        sessions = Sessions(self._registry, secret, self._wall)
        receipts = ReceiptReader(open_store, self._clock)
        shared = Shared(access.queue, self._clock), Shared(access.ray, self._clock)
        self._page = ClassPage(
            access, shared, sessions, receipts, self._held_back, self._seen, self._requests, self._wall
        )
        self._jobs = RayJobs(access)
        self._routes = Routes(access, self._jobs)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """The answer to a request. After one that did not wait for all of a body the connection ends.

        The rest would be read as the next request, by the proxy, too.
        """
        response = await self._answered(request)
        if not request.content.is_eof():
            response.headers[UNREAD_HEADER] = "1"
            response.force_close()
        return response

    async def _answered(self, request: web.Request) -> web.StreamResponse:
        if request.path == HEALTH:  # the one page without a token
            return _response(Reply(200, b"{}"))
        try:
            if request.path == PAGE or request.path.startswith(f"{PAGE}/"):
                return await self._page.serve(request)
            return await self._served(request)
        except StateError as error:
            self._say_damaged(error.message)
            return _refusal(request, error)
        except (SlowError, TooLargeError, TooManyError) as error:
            return _refusal(request, error)

    async def _served(self, request: web.Request) -> web.StreamResponse:
        """The answer to a request of whoever bears a token. Raises StateError, and what `Bodies` raises."""
        person = self._registry.bearer(token_of(request.headers))
        if person is None:
            return await self._refused(request)
        self._seen[person.name] = self._wall()
        if (match := TAIL.fullmatch(request.rel_url.raw_path)) is not None:
            async with self._tails.turn(person.name):
                return await self._tail(request, person, match)
        async with self._requests.turn(person.name):
            async with self._bodies.read(request, person) as body:
                person = self._registry.bearer(token_of(request.headers))
                if person is None:  # the token ended while the body came
                    return await self._refused(request)
                reply = await self._routes.answer(_asked(request, person, body))
            if reply.status == 502:
                self._say(f"{request.method} {request.path} of {person.name}: {reply.text[:300]}")
            response = _response(reply)
            if len(reply.data) > LARGE_BYTES:
                await _send(request, response)
            return response

    async def _refused(self, request: web.Request) -> web.Response:
        """Refuse a request without a token that is right, in Ray's words; a wrong one waits for it."""
        if not token_of(request.headers):
            return _response(Reply(401, b"Unauthorized: Missing authentication token", "text/plain"))
        if not await self._held_back(request):
            return _response(Reply(429, b"Too many wrong tokens: try again later", "text/plain"))
        return _response(Reply(403, b"Forbidden: Invalid authentication token", "text/plain"))

    async def _held_back(self, request: web.Request) -> bool:
        """Let the answer to a wrong token wait; False where too many wait already."""
        source = origin(request.remote, request.headers.getall(FORWARDED, ()))
        return await self._slowdown.hold_back(source, self._pause)

    async def _tail(self, request: web.Request, person: Person, match: re.Match[str]) -> web.StreamResponse:
        """Send a log until the job has ended, the client is gone, or its token has ended."""
        from aiohttp import WSCloseCode, web

        asked = _asked(request, person)
        try:
            (name,) = names(match)
            await self._jobs.check_tail(asked, name)
        except LabError as error:
            return _refusal(request, error)
        socket = web.WebSocketResponse(heartbeat=HEARTBEAT_SECONDS)
        await socket.prepare(request)
        sending, revoked = (
            asyncio.ensure_future(self._send_log(socket, asked, name)),
            asyncio.ensure_future(self._ended(token_of(request.headers), person)),
        )
        tasks = (sending, revoked, asyncio.ensure_future(_gone(socket)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        code = WSCloseCode.OK if sending.cancelled() else sending.result()
        await socket.close(code=code if revoked.cancelled() else WSCloseCode.POLICY_VIOLATION)
        return socket

    async def _send_log(self, socket: web.WebSocketResponse, asked: Asked, name: str) -> int:
        """Send a log until its job has ended; returns the code with which to close."""
        from aiohttp import WSCloseCode

        try:
            async for text in self._jobs.tail(asked, name):
                await socket.send_str(text)
        except LabError as error:
            self._say(f"the log of {name} is no longer followed: {error.message}")
            return WSCloseCode.TRY_AGAIN_LATER
        except ConnectionError:
            pass  # the client is gone
        return WSCloseCode.OK

    async def _ended(self, token: str, person: Person) -> None:
        """Wait until a token is not this person's any more."""
        with contextlib.suppress(StateError):
            while self._registry.bearer(token) == person:
                await self._pause(RECHECK_SECONDS)


async def _gone(socket: web.WebSocketResponse) -> None:
    """Wait until the client has closed its end."""
    async for _ in socket:
        pass


def _asked(request: web.Request, person: Person, body: Body = b"") -> Asked:
    url = request.rel_url
    attempts = ATTEMPTS_HEADER in request.headers
    return Asked(person, request.method, url.raw_path, url.raw_query_string, body, attempts)


def _refusal(request: web.Request, error: LabError) -> web.Response:
    return _response(failure(request.path, error))


async def _send(request: web.Request, response: web.Response) -> None:
    """Send a large answer while its memory is counted; who does not read it is given up."""
    await response.prepare(request)
    try:
        await asyncio.wait_for(response.write_eof(), SEND_SECONDS)
    except asyncio.TimeoutError:
        if request.transport is not None:
            request.transport.abort()


def _response(reply: Reply) -> web.Response:
    from aiohttp import web

    headers = {"Cache-Control": "no-store", "Content-Type": f"{reply.kind}; charset=utf-8", **reply.headers}
    return web.Response(status=reply.status, body=reply.data, headers=headers)
