"""The HTTP server: a small WSGI server, who may ask it, and its end on a signal."""

from __future__ import annotations

import contextlib
import hmac
import io
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from lab.errors import PortTakenError, UsageError

if TYPE_CHECKING:
    from socketserver import BaseServer
    from wsgiref.simple_server import WSGIServer

    from _typeshed import WriteableBuffer
    from _typeshed.wsgi import WSGIEnvironment

Environ: TypeAlias = "WSGIEnvironment"
"""The environment of a request, as WSGI has it: texts under the names of CGI, and objects of any type."""

StartResponse: TypeAlias = Callable[..., Any]
"""What a WSGI application calls with the status and the headers of its answer."""

App: TypeAlias = Callable[[Environ, StartResponse], Iterable[bytes]]
"""A WSGI application."""

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")

HEAD_SECONDS = 30.0
"""Deadline for the first line and the headers of a request."""

WAIT_SECONDS = 60.0
"""Longest wait for the rest of a body: each of its bytes earns back a part of what was waited, up to this."""

BYTES_PER_SECOND = 500
"""Speed at which a body may come for as long as it wants; Apache's mod_reqtimeout has the same rule."""

SEND_SECONDS = 120.0
"""Longest time in which nothing of an answer is taken."""


def log(line: str) -> None:
    """One line on stderr, which is the service's log, whatever of a request is in it. Raises nothing."""
    shown = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)
    with contextlib.suppress(Exception):  # the disk is full, or stderr closed
        sys.stderr.write(f"{shown}\n")
        sys.stderr.flush()


def listen_address(text: str, example: str) -> tuple[str, int]:
    """HOST:PORT. Raises UsageError with the example."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--listen {text}: not HOST:PORT", f"for example {example}")
    return host.strip("[]"), int(port)


def answer(start_response: StartResponse, status: str, body: bytes, kind: str) -> list[bytes]:
    """A whole answer: `status` as in `404 Not Found`, `kind` its Content-Type."""
    start_response(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body]


def named(app: App, names: Collection[str]) -> App:
    """The application under these host names only: other names may point here from a foreign page."""

    def guarded(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if re.sub(r":\d*$", "", environ.get("HTTP_HOST", "")).lower() in names:
            return app(environ, start_response)
        refusal = f"this service answers only to the names {', '.join(names)}\n".encode()
        return answer(start_response, "403 Forbidden", refusal, "text/plain; charset=utf-8")

    return guarded


def bearing(app: App, token: str, public: Collection[str] = ()) -> App:
    """The application for requests that bear the token, and for all on `public` paths.

    An empty token lets everybody in: Ray's own programs do the same where none is set.
    """

    def guarded(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        scheme, _, given = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        borne = scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())
        if borne or not token or environ.get("PATH_INFO") in public:
            return app(environ, start_response)
        refusal = b'{"error": {"message": "the request does not bear the token of this lab"}}\n'
        return answer(start_response, "401 Unauthorized", refusal, "application/json")

    return guarded


class SlowRequestError(TimeoutError):
    """A request comes too slowly; its connection is of no more use."""

    def __init__(self) -> None:
        super().__init__("the request arrives too slowly")


class Arriving(io.RawIOBase):
    """The bytes of one request as they arrive, with deadlines: a client that drips them is given up."""

    def __init__(self, raw: Any, connection: Any, clock: Callable[[], float] = time.monotonic) -> None:
        """`raw` reads from `connection`, whose timeout is set here for reading, and left for sending."""
        super().__init__()
        self._raw, self._connection, self._clock = raw, connection, clock
        self._left, self._in_body = HEAD_SECONDS, False

    def begin_body(self) -> None:
        """Say that the headers are read: from here on progress counts."""
        self._left, self._in_body = WAIT_SECONDS, True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read within the time that is left. Raises SlowRequestError."""
        if self._left <= 0:
            raise SlowRequestError
        begin, count = self._clock(), 0
        self._connection.settimeout(self._left)
        try:
            count = int(self._raw.readinto(buffer) or 0)
        except TimeoutError:
            self._left = 0.0
        finally:
            self._connection.settimeout(SEND_SECONDS)
        self._left -= self._clock() - begin
        if self._in_body:
            self._left = min(WAIT_SECONDS, self._left + count / BYTES_PER_SECOND)
        if self._left <= 0:
            raise SlowRequestError
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class Log(io.TextIOBase):
    """A stream that writes lines to the log. Raises nothing."""

    def write(self, text: str) -> int:
        for line in filter(None, text.splitlines()):
            log(line)
        return len(text)


class Lasting:
    """An http.server that outlives what a request raises: put before it among the base classes."""

    def handle_error(self, request: object, client_address: tuple[str, int] | str) -> None:
        """Log one line: as a rule the client has gone."""
        log(f"a request of {client_address[0]} was abandoned: {sys.exc_info()[1]!r}")


class Paced:
    """Deadlines for a handler of http.server: put before it among the base classes."""

    rfile: io.BufferedIOBase
    connection: socket.socket

    def setup(self) -> None:
        super().setup()  # type: ignore[misc]
        self._arriving = Arriving(self.rfile.detach(), self.connection)
        self.rfile = io.BufferedReader(self._arriving)
        self.connection.settimeout(SEND_SECONDS)

    def parse_request(self) -> bool:
        """Read the headers, and say if they can be understood."""
        understood = bool(super().parse_request())  # type: ignore[misc]
        self._arriving.begin_body()
        return understood


def make_server(host: str, port: int, app: App) -> WSGIServer:
    """A WSGI server that listens already, with one thread for each request. Raises PortTakenError."""
    from socketserver import TCPServer, ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

    class Server(Lasting, ThreadingMixIn, WSGIServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True
        request_queue_size = 64

        def server_bind(self) -> None:
            """Bind without HTTPServer's look-up of the host's full name, which can take seconds."""
            TCPServer.server_bind(self)
            self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
            self.setup_environ()

    class Handler(Paced, WSGIRequestHandler):
        def get_stderr(self) -> Log:
            """Let a page that fails be answered although that cannot be logged."""
            return Log()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: health and metrics are asked for every few seconds."""

    def patient(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        try:
            return app(environ, start_response)
        except SlowRequestError as error:
            return answer(start_response, "408 Request Timeout", f"{error}\n".encode(), "text/plain")

    try:
        return make_server(host, port, patient, Server, handler_class=Handler)
    except OSError as error:
        raise PortTakenError(
            f"cannot listen on {host}:{port}: {error.strerror}", "choose another --listen"
        ) from error


def serve(server: BaseServer) -> None:
    """Serve until SIGTERM or SIGINT. Only the main thread may call it."""

    def end(*_: object) -> None:
        threading.Thread(target=server.shutdown, daemon=True).start()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    server.serve_forever(poll_interval=0.2)
    server.server_close()
