"""Prometheus and Alertmanager under the lab's own names only.

They answer whatever name they are asked by: a page of the web whose name is made to point here (DNS
rebinding) could read them, and Alertmanager lets every page read it and make silences. This stands before
them, and passes on what the lab and its people ask: no page's origin, and no answer's leave for one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from urllib.parse import quote

from lab.errors import UsageError
from lab.host import http
from lab.host.reading import DOCUMENT
from lab.host.serving import LOOPBACK_NAMES, App, Environ, StartResponse, answer, listen_address, named
from lab.services import ALERTMANAGER, METRICS, PROMETHEUS

QUERY_SECONDS = 130.0
"""Deadline of an answer. Prometheus gives up a query after two minutes."""

ASKED = {"CONTENT_TYPE": "Content-Type", "HTTP_ACCEPT": "Accept"}
TOLD = ("content-type", "location", "cache-control")
"""Headers that are passed on, of a request and of its answer."""

PLAIN = "text/plain; charset=utf-8"


def read_guard(text: str) -> tuple[str, int, str]:
    """Host and port to listen on, and the URL behind, of HOST:PORT=URL. Raises UsageError."""
    address, equals, url = text.partition("=")
    if not equals or not re.fullmatch(r"http://[^/]+", url):
        raise UsageError(f"--guard {text}: not HOST:PORT=URL", "such as 127.0.0.1:9090=http://127.1.2.3:9090")
    return (*listen_address(address, "127.0.0.1:9090"), url)


def make_guard(url: str, request: Callable[..., http.Reply] = http.request) -> App:
    """The WSGI application that passes requests on to `url`."""

    def passed_on(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        length = environ.get("CONTENT_LENGTH") or "0"
        if not re.fullmatch(r"[0-9]{1,9}", length) or int(length) > DOCUMENT:
            return answer(start_response, "413 Request Entity Too Large", b"too long\n", PLAIN)
        path = quote(environ.get("PATH_INFO", "/").encode("latin-1"))
        query = environ.get("QUERY_STRING", "")
        try:
            reply = request(
                environ["REQUEST_METHOD"],
                f"{url}{path}?{query}" if query else f"{url}{path}",
                headers={
                    name: environ[variable] for variable, name in ASKED.items() if environ.get(variable)
                },
                body=environ["wsgi.input"].read(int(length)) if int(length) else None,
                timeout=QUERY_SECONDS,
            )
        except http.NoAnswerError as error:
            return answer(start_response, "502 Bad Gateway", f"no answer: {error}\n".encode(), PLAIN)
        headers = [(name.title(), reply.headers[name]) for name in TOLD if name in reply.headers]
        start_response(f"{reply.status} ", [*headers, ("Content-Length", str(len(reply.data)))])
        return [reply.data]

    return named(passed_on, (*LOOPBACK_NAMES, METRICS, PROMETHEUS, ALERTMANAGER))
