"""Bodies, streams and the memory they take: on loopback, in one process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import ClientSession, WSCloseCode, web
from aiohttp.test_utils import TestServer

from lab.daemons.gateway import bodies
from lab.daemons.gateway.__main__ import BACKLOG
from lab.daemons.gateway.access import Access
from lab.daemons.gateway.server import MOST_TAILS, Site, make_app
from lab.daemons.gateway.tokens import Slowdown
from lab.people.registry import Person
from tests.unit.daemons.gateway.classes import Class
from tests.unit.daemons.queue.test_routes import ZIP_OF_A, zip_of

MIB = 1 << 20
PACKAGE = "/api/packages/gcs/a.zip"
IDLE = "PUT {} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 100\r\n\r\n"


class Street:
    """The gateway on a port, and those who ask it."""

    def __init__(self, school: Class) -> None:
        self.school = school
        self.tokens = {name: school.registry.reset(name)[0].token for name in ("ann", "ben", "tom")}
        self.turn = asyncio.Event()
        """Set: a pause of the gateway ends."""
        self.log: list[str] = []

    async def _pause(self, seconds: float) -> None:
        await self.turn.wait()
        self.turn.clear()

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[Street]:
        site = Site(self.school.registry, Slowdown(self.log.append), self.log.append, self._pause)
        site.open(Access(self.school.registry, self.school.queue, self.school.ray))
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", site.serve)
        async with TestServer(app) as server, ClientSession(server.make_url("/")) as self.session:
            self.port = server.port
            yield self

    def bearing(self, person: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[person]}"}

    async def ask(self, person: str, method: str, path: str, **more: Any) -> int:
        async with self.session.request(method, path, headers=self.bearing(person), **more) as response:
            await response.read()
            return response.status

    async def submit(self, person: str) -> int:
        return await self.ask(person, "POST", "/api/jobs/", json={"entrypoint": "true"})

    async def idle(self, person: str, path: str = PACKAGE) -> asyncio.StreamWriter:
        """A connection on which a body is announced that never comes."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(IDLE.format(path, self.tokens[person]).encode())
        await writer.drain()
        return writer

    def follow(self, person: str, name: str = "ann-x") -> Any:
        return self.session.ws_connect(f"/api/jobs/{name}/logs/tail", headers=self.bearing(person))


@pytest.fixture
def street(school: Class) -> Street:
    return Street(school)


def on(street: Street, use: Callable[[Street], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with street.opened():
            return await use(street)

    return asyncio.run(asyncio.wait_for(run(), 60))


async def _chunks(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield bytes(MIB)


def test_what_is_too_large_is_refused(street: Street) -> None:
    async def use(street: Street) -> None:
        for path in ("/jobs", "/api/jobs/", "/apply", "/workloads/*/x/cancel"):
            assert await street.ask("ann", "POST", path, data=bytes(2 * MIB + 1)) == 413
            assert await street.ask("ann", "POST", path, data=_chunks(3)) == 413
        assert await street.ask("tom", "POST", "/apply", data=bytes(3 * MIB)) == 400
        assert await street.ask("tom", "POST", "/jobs", data=bytes(3 * MIB)) == 413
        assert await street.ask("tom", "POST", "/apply", data=bytes(17 * MIB)) == 413
        assert await street.ask("ann", "PUT", PACKAGE, data=zip_of("a", bytes(3 * MIB))) == 200
        assert await street.submit("ann") == 200

    on(street, use)


def test_a_package_is_kept(street: Street) -> None:
    async def use(street: Street) -> None:
        assert await street.ask("ann", "PUT", PACKAGE, data=ZIP_OF_A) == 200
        assert await street.ask("ann", "GET", PACKAGE) == 200

    on(street, use)


def test_idle_connections_of_one_person_hold_up_nobody_else(street: Street) -> None:
    async def use(street: Street) -> None:
        for path in (PACKAGE, "/jobs"):
            writers = [await street.idle("ann", path) for _ in range(6)]
            assert await street.ask("ann", "GET", "/queues") == 200
            assert await street.submit("ben") == 200
            assert await street.ask("ben", "PUT", PACKAGE, data=ZIP_OF_A) == 200
            for writer in writers:
                writer.close()

    on(street, use)


def test_a_body_that_does_not_come_is_given_up(street: Street, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PACKAGE_SECONDS", 0.0)

    async def use(street: Street) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", street.port)
        writer.write(IDLE.format(PACKAGE, street.tokens["ann"]).encode())
        line = await reader.readline()
        writer.close()
        return line

    assert on(street, use).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(("sent", "unread"), [(b"", True), (b"x" * 100, False)])
def test_what_is_left_of_a_body_is_no_next_request(street: Street, sent: bytes, unread: bool) -> None:
    async def use(street: Street) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", street.port)
        writer.write(IDLE.replace("Authorization", "X-None").format("/jobs", "").encode() + sent)
        head = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        return head

    head = on(street, use)
    assert head.startswith(b"HTTP/1.1 401 ")
    assert (b"X-Raylab-Unread: 1" in head, b"Connection: close" in head) == (unread, unread)


def test_a_token_that_ends_while_the_body_comes_is_refused(
    street: Street, monkeypatch: pytest.MonkeyPatch
) -> None:
    street.turn.set()
    registry, begun = street.school.registry, asyncio.Event()
    bearer = registry.bearer

    def noted(token: str) -> Person | None:
        begun.set()
        return bearer(token)

    async def late() -> AsyncIterator[bytes]:
        yield b'{"entrypoint": '
        await begun.wait()
        registry.reset("ann")
        yield b'"true"}'

    async def use(street: Street) -> int:
        return await street.ask("ann", "POST", "/api/jobs/", data=late())

    monkeypatch.setattr(registry, "bearer", noted)
    assert on(street, use) == 403
    assert not street.school.world.controller.records


def test_a_log_ends_with_the_token(street: Street) -> None:
    for name in ("x", "y", "z"):
        street.school.submit("ann", name, work=1000)
    street.school.world.run(5)

    async def use(street: Street) -> int | None:
        async with street.follow("ann", "ann-z") as socket:
            assert (await socket.receive_str()).startswith("(queue) ")
            street.school.registry.reset("ann")
            street.turn.set()
            await socket.receive()
            return int(socket.close_code)

    assert on(street, use) == WSCloseCode.POLICY_VIOLATION


def test_so_many_logs_at_a_time(street: Street) -> None:
    for name in ("x", "y", "z"):
        street.school.submit("ann", name, work=1000)
    street.school.world.run(5)

    async def use(street: Street) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(MOST_TAILS):
                await stack.enter_async_context(street.follow("ann", "ann-z"))
            assert await street.ask("ann", "GET", "/api/jobs/ann-z/logs/tail") == 429
            assert await street.submit("ann") == 200

    on(street, use)


def test_three_hundred_who_come_while_it_is_busy_are_connected() -> None:
    async def come() -> None:
        runner = web.AppRunner(web.Application())
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=BACKLOG)
        await site.start()
        address = runner.addresses[0]
        with contextlib.ExitStack() as stack:  # all this time nothing is accepted
            for _ in range(300):
                stack.enter_context(socket.create_connection(address, timeout=0.5))
        await runner.cleanup()

    asyncio.run(come())


def test_the_gateway_as_it_is_run(street: Street) -> None:
    async def ray(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer of ray"
        return web.json_response({"version": "4", "pad": "x" * 100_000})

    async def run() -> tuple[int, Any]:
        behind = web.Application()
        behind.router.add_route("*", "/{path:.*}", ray)
        async with TestServer(behind) as service:
            url = str(service.make_url("/"))
            app = make_app(street.school.registry, (url, "of ray"), url, street.log.append)
            async with (
                TestServer(app) as server,
                ClientSession(server.make_url("/")) as session,
                session.get("/api/version", headers=street.bearing("ann")) as response,
            ):
                return response.status, (await response.json())["version"]

    assert asyncio.run(run()) == (200, "4")
