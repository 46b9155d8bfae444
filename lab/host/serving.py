"""The one door for serving HTTP: a small WSGI server, who may ask it, and its end on a signal."""

from __future__ import annotations

import contextlib
import hmac
import io
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from lab.errors import PortTakenError, UsageError

App = Callable[[Mapping[str, Any], Callable[..., Any]], Iterable[bytes]]
"""A WSGI application."""

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")

IDLE_SECONDS = 30.0
"""Longest wait for the next bytes of a request."""


class Log(io.TextIOBase):
    """The service's log, which is stderr: what cannot be written there is lost, and nothing else is."""

    def write(self, text: str, /) -> int:
        """Raises nothing: the disk may be full, or stderr closed."""
        with contextlib.suppress(Exception):
            sys.stderr.write(text)
            sys.stderr.flush()
        return len(text)


def log(line: str) -> None:
    """One line of the log. Raises nothing."""
    Log().write(f"{line}\n")


def listen_address(text: str, example: str) -> tuple[str, int]:
    """HOST:PORT. Raises UsageError with the example."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--listen {text}: not HOST:PORT", f"for example {example}")
    return host.strip("[]"), int(port)


def answer(start_response: Callable[..., Any], status: str, body: bytes, kind: str) -> list[bytes]:
    """A whole answer: `status` as in `404 Not Found`, `kind` its Content-Type."""
    start_response(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body]


def named(app: App, names: Collection[str]) -> App:
    """The application under these host names only: other names may point here from a foreign page."""

    def guarded(environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if re.sub(r":\d*$", "", environ.get("HTTP_HOST", "")).lower() in names:
            return app(environ, start_response)
        refusal = f"served as {', '.join(names)} only\n".encode()
        return answer(start_response, "403 Forbidden", refusal, "text/plain; charset=utf-8")

    return guarded


def bearing(app: App, token: str, public: Collection[str] = ()) -> App:
    """The application for requests that bear the token, and for all on `public` paths.

    An empty token lets everybody in: Ray's own programs do the same where none is set.
    """

    def guarded(environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        scheme, _, given = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        borne = scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())
        if borne or not token or environ.get("PATH_INFO") in public:
            return app(environ, start_response)
        refusal = b'{"error": {"message": "the request does not bear the token of this lab"}}\n'
        return answer(start_response, "401 Unauthorized", refusal, "application/json")

    return guarded


def make_server(host: str, port: int, app: App) -> Any:
    """A WSGI server that listens already, with one thread for each request. Raises PortTakenError."""
    from socketserver import TCPServer, ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

    class Server(ThreadingMixIn, WSGIServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True
        request_queue_size = 64

        def server_bind(self) -> None:
            """Bind without HTTPServer's look-up of the host's full name, which can take seconds."""
            TCPServer.server_bind(self)
            self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
            self.setup_environ()

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Log one line: as a rule the client has gone."""
            log(f"a request of {client_address[0]} was given up: {sys.exc_info()[1]!r}")

    class Handler(WSGIRequestHandler):
        timeout = IDLE_SECONDS

        def get_stderr(self) -> Any:
            """Let a page that fails be answered although that cannot be logged."""
            return Log()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: health and metrics are asked for every few seconds."""

    try:
        return make_server(host, port, app, Server, handler_class=Handler)
    except OSError as error:
        raise PortTakenError(
            f"cannot listen on {host}:{port}: {error.strerror}", "choose another --listen"
        ) from error


def serve(server: Any) -> None:
    """Serve until SIGTERM or SIGINT. Only the main thread may call it."""

    def end(*_: Any) -> None:
        threading.Thread(target=server.shutdown, daemon=True).start()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    server.serve_forever(poll_interval=0.2)
    server.server_close()
