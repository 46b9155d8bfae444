"""The services behind the gateway, as it asks them: on loopback, in one process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from aiohttp import ClientSession, TCPConnector, web
from aiohttp.test_utils import TestServer

from lab.daemons.gateway.upstream import HttpUpstream, TooLongError, UnansweredError
from lab.errors import ClusterError

T = TypeVar("T")


class Service:
    """A service that notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str, bytes]] = []
        self.end = asyncio.Event()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/refused":
            raise web.HTTPBadRequest(text="no log")
        if request.path in ("/tail", "/broken"):
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            await socket.send_str("a line\n")
            if request.path == "/broken":
                assert request.transport is not None
                request.transport.abort()
            await self.end.wait()
            return socket
        length, body = request.headers.get("Content-Length", ""), await request.read()
        self.asked.append((request.method, request.raw_path, length, body))
        return web.Response(body=b"x" * 1000)


def over(use: Callable[[HttpUpstream, Service], Awaitable[T]]) -> T:
    """The result of a use of such a service, over one connection and any number of streams."""

    async def run() -> T:
        service = Service()
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", service.serve)
        async with (
            TestServer(app) as server,
            ClientSession(connector=TCPConnector(limit=1)) as session,
            ClientSession(connector=TCPConnector(limit=0)) as tails,
        ):
            try:
                return await use(HttpUpstream(session, str(server.make_url("/")), "token", tails), service)
            finally:
                service.end.set()

    return asyncio.run(run())


def test_a_large_body_arrives_whole_and_says_its_length() -> None:
    body = bytearray(range(256)) * 3000

    async def put(upstream: HttpUpstream, service: Service) -> Any:
        await upstream.ask("PUT", "/packages/1", body)
        await upstream.ask("POST", "/order", b"")
        return service.asked

    assert over(put) == [
        ("PUT", "/packages/1", str(len(body)), bytes(body)),
        ("POST", "/order", "0", b""),
    ]


@pytest.mark.parametrize("path", ["/api/jobs/%2e", "/a/%2e%2e/b", "/a/b%2Fc", "/a?x=1%262"])
def test_a_path_goes_on_as_it_is(path: str) -> None:
    async def get(upstream: HttpUpstream, service: Service) -> str:
        await upstream.ask("GET", path)
        return service.asked[0][1]

    assert over(get) == path


def test_an_answer_that_is_too_long_is_given_up() -> None:
    async def get(upstream: HttpUpstream, service: Service) -> bytes:
        assert (await upstream.ask("GET", "/", most=1000)).data == b"x" * 1000
        with pytest.raises(TooLongError) as caught:
            await upstream.ask("GET", "/", most=999)
        return caught.value.head

    assert over(get) == b"x" * 999


def test_streams_take_no_connection_of_the_others() -> None:
    async def follow(upstream: HttpUpstream, service: Service) -> int:
        tails = [upstream.tail("/tail") for _ in range(3)]
        assert [await anext(tail) for tail in tails] == ["a line\n"] * 3
        return (await upstream.ask("GET", "/")).status

    assert over(follow) == 200


@pytest.mark.parametrize(("path", "kind"), [("/broken", UnansweredError), ("/refused", ClusterError)])
def test_the_end_of_a_stream(path: str, kind: type[ClusterError]) -> None:
    async def follow(upstream: HttpUpstream, service: Service) -> type[Exception]:
        with pytest.raises(ClusterError) as caught:
            async for _ in upstream.tail(path):
                pass
        return type(caught.value)

    assert over(follow) is kind
