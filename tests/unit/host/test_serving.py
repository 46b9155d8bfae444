"""The small HTTP server: who may ask it, what it says to others, and its end. No network but loopback."""

from __future__ import annotations

import errno
import io
import os
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from lab.errors import PortTakenError, UsageError
from lab.host.serving import (
    BYTES_PER_SECOND,
    HEAD_SECONDS,
    LOOPBACK_NAMES,
    SEND_SECONDS,
    WAIT_SECONDS,
    Arriving,
    Lasting,
    SlowRequestError,
    answer,
    bearing,
    listen_address,
    log,
    make_server,
    named,
)

NAMES = (*LOOPBACK_NAMES, "metrics")
TOKEN = "the-token"


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:9101", ("127.0.0.1", 9101)), ("0.0.0.0:1", ("0.0.0.0", 1)), ("[::1]:5", ("::1", 5))],
)
def test_the_address_to_listen_on(text: str, address: tuple[str, int]) -> None:
    assert listen_address(text, "127.0.0.1:1") == address


@pytest.mark.parametrize("text", ["9101", "host:", "host:x", ":9101", "host:70000"])
def test_an_address_that_makes_no_sense_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="not HOST:PORT") as caught:
        listen_address(text, "127.0.0.1:9101")
    assert caught.value.hint == "for example 127.0.0.1:9101"


def seven(environ: Mapping[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    if environ["PATH_INFO"] == "/broken":
        raise ValueError("a page that fails")
    return answer(start_response, "200 OK", b"7", "text/plain")


@pytest.fixture
def port() -> Iterator[int]:
    """That of a server with one page, for whoever bears the token."""
    server = make_server("127.0.0.1", 0, named(bearing(seven, TOKEN, ["/healthz"]), NAMES))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def ask(port: int, path: str = "/", *, host: str = "", token: str = f"Bearer {TOKEN}") -> str:
    headers = {"Host": host} if host else {}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", headers={**headers, "Authorization": token}
    )
    with urllib.request.urlopen(request, timeout=10) as got:
        return str(got.read().decode())


def test_a_port_in_use_is_named(port: int) -> None:
    assert ask(port) == "7"
    with pytest.raises(PortTakenError, match=f"127.0.0.1:{port}"):
        make_server("127.0.0.1", port, seven)


@pytest.mark.parametrize("host", ["localhost:1", "LOCALHOST", "[::1]:9101", "[::1]", "metrics:9101"])
def test_the_lab_may_call_the_server_by_any_of_its_names(port: int, host: str) -> None:
    assert ask(port, host=host) == "7"


@pytest.mark.parametrize("host", ["rebound.example", "rebound.example:9101", "127.0.0.1.rebound.example"])
def test_a_page_of_another_host_name_is_refused(port: int, host: str) -> None:
    with pytest.raises(urllib.error.HTTPError, match="403"):
        ask(port, "/healthz", host=host)


@pytest.mark.parametrize("token", ["", "Bearer", "Bearer other", f"Basic {TOKEN}", TOKEN, "Bearer thé-token"])
def test_who_does_not_bear_the_token_sees_public_pages_only(port: int, token: str) -> None:
    assert ask(port, "/healthz", token=token) == "7"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        ask(port, "/healthz/more", token=token)


def test_the_scheme_of_the_token_may_be_written_in_any_case(port: int) -> None:
    assert ask(port, token=f"bearer {TOKEN}") == "7"


def test_without_a_token_everybody_may_ask() -> None:
    said: list[str] = []
    assert bearing(seven, "")({"PATH_INFO": "/"}, lambda status, _: said.append(status)) == [b"7"]
    assert said == ["200 OK"]


class Broken:
    """A stderr whose disk is full."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stderr", [Broken(), closed(), None])
def test_a_log_that_cannot_be_written_keeps_nobody_from_anything(
    port: int, monkeypatch: pytest.MonkeyPatch, stderr: Any
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stderr)
        log("a line")
        with pytest.raises(urllib.error.HTTPError, match="500"):
            ask(port, "/broken")
    assert ask(port) == "7"


def test_a_page_that_fails_does_not_end_the_server(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(urllib.error.HTTPError, match="500"):
        ask(port, "/broken")
    assert ask(port) == "7"
    assert "a page that fails" in capsys.readouterr().err


class Client:
    """A connection whose client sends the next of `pieces`, each so many bytes, after so many seconds."""

    def __init__(self, *pieces: tuple[float, int]) -> None:
        self._pieces, self.now, self.timeout = list(pieces), 0.0, 0.0

    def settimeout(self, seconds: float) -> None:
        assert seconds > 0
        self.timeout = seconds

    def readinto(self, buffer: memoryview) -> int:
        after, size = self._pieces.pop(0)
        self.now += min(after, self.timeout)
        if after > self.timeout:
            raise TimeoutError("timed out")
        return min(size, len(buffer))


def arriving(client: Client) -> Arriving:
    return Arriving(client, client, lambda: client.now)


def read_all(request: Arriving) -> None:
    while request.read(1):
        pass


def test_headers_that_drip_are_given_up_at_their_deadline() -> None:
    client = Client(*[(1.0, 1)] * 100)
    request = arriving(client)
    with pytest.raises(SlowRequestError):
        read_all(request)
    assert client.now == HEAD_SECONDS
    assert client.timeout == SEND_SECONDS, "an answer may still be sent"
    with pytest.raises(SlowRequestError):
        request.read(1)


def test_a_body_that_drips_is_given_up() -> None:
    client = Client(*[(5.0, 1)] * 100)
    request = arriving(client)
    request.begin_body()
    with pytest.raises(SlowRequestError):
        read_all(request)
    assert WAIT_SECONDS <= client.now <= WAIT_SECONDS + 5


@pytest.mark.parametrize(
    "pieces",
    [
        [(1.0, BYTES_PER_SECOND)] * 2000,  # a slow line
        [(50.0, 64 << 10)] * 100,  # one that stalls
        [(0.0, 1 << 20)] * 10 + [(59.0, 1 << 20)] * 5,
    ],
)
def test_a_slow_but_honest_body_is_read_to_its_end(pieces: list[tuple[float, int]]) -> None:
    request = arriving(Client(*pieces, (0.0, 0)))
    request.begin_body()
    buffer = bytearray(1 << 20)
    assert [request.readinto(buffer) for _ in pieces] == [size for _, size in pieces]
    assert request.readinto(buffer) == 0


def test_a_body_that_stops_is_given_up() -> None:
    client = Client((0.0, 1 << 20), (1e9, 1))
    request = arriving(client)
    request.begin_body()
    request.readinto(bytearray(1 << 20))
    with pytest.raises(SlowRequestError):
        request.readinto(bytearray(1))
    assert client.now == WAIT_SECONDS


class FullDisk:
    def write(self, _: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_log_that_cannot_be_written_ends_nothing(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", FullDisk())
    log("a line")
    with pytest.raises(urllib.error.HTTPError, match="500"):
        ask(port, "/broken")
    Lasting().handle_error(None, ("127.0.0.1", 1))
    assert ask(port) == "7"


def test_what_a_request_says_makes_one_line_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    log("GET /a\n2026-01-01 root logged in\x1b[2J \u202eü")
    assert capsys.readouterr().err == "GET /a\\n2026-01-01 root logged in\\x1b[2J \\u202eü\n"
