"""The controller's HTTP server: plain WSGI."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lab.errors import PortTakenError

Start = Callable[..., Any]
App = Callable[[Mapping[str, Any], Start], Iterable[bytes]]


def make_server(host: str, port: int, app: App) -> Any:
    """A WSGI server that listens already, one thread for each request. Raises PortTakenError."""
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

    class Threading(ThreadingMixIn, WSGIServer):
        daemon_threads = True

    class Quiet(WSGIRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: health is asked for every few seconds."""

    try:
        return make_server(host, port, app, Threading, handler_class=Quiet)
    except OSError as error:
        raise PortTakenError(
            f"cannot listen on {host}:{port}: {error.strerror}", "choose another --listen"
        ) from error


def make_app() -> App:
    """The WSGI application."""

    def app(environ: Mapping[str, Any], start_response: Start) -> Iterable[bytes]:
        healthy = environ.get("PATH_INFO") == "/healthz"
        body = json.dumps({"status": "ok"} if healthy else {"error": {"message": "there is no such page"}})
        start_response(
            "200 OK" if healthy else "404 Not Found",
            [("Content-Type", "application/json"), ("Content-Length", str(len(body)))],
        )
        return [body.encode()]

    return app
