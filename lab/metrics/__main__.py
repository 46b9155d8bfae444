"""Serves the lab's metrics: `python -m lab.metrics --listen HOST:PORT`. Configured by the environment.

| variable | says |
| --- | --- |
| RAY_API_SERVER_ADDRESS | Ray's dashboard |
| RAY_AUTH_TOKEN_PATH | the file that holds Ray's token |
| AWS_ENDPOINT_URL | the object store |
| AWS_SHARED_CREDENTIALS_FILE | the file that holds its key, or: |
| AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY | its key |
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.cluster.api import RayApi
from lab.cluster.jobs import Job
from lab.errors import LabError, PortTakenError, UsageError
from lab.host.reading import SMALL, read_text
from lab.host.secrets import key_from
from lab.metrics.collector import LabCollector
from lab.metrics.follower import Follower, log
from lab.metrics.sources import ClusterSource, ClusterView, StoreSource, StoreView
from lab.services import METRICS
from lab.store import ObjectStore
from lab.topology import REGION, Credentials

NAMES = ("127.0.0.1", "localhost", "[::1]", METRICS)
"""Names of the server: a page whose own name pointed here could read its answers otherwise."""


def required(environ: Mapping[str, str], name: str) -> str:
    """The value of a variable. Raises UsageError when it is not set."""
    value = environ.get(name, "")
    if not value:
        raise UsageError(f"{name} is not set", "lab.metrics is configured by its environment")
    return value


def credentials(environ: Mapping[str, str]) -> Credentials:
    """The key of the object store, from the environment or the file it names. Raises UsageError."""
    key = key_from(environ, "AWS_SHARED_CREDENTIALS_FILE names it")
    if key is None:
        key = Credentials(required(environ, "AWS_ACCESS_KEY_ID"), required(environ, "AWS_SECRET_ACCESS_KEY"))
    return key


def ray_token(environ: Mapping[str, str]) -> str:
    """Ray's token, empty where no file is named. Raises UsageError."""
    path = environ.get("RAY_AUTH_TOKEN_PATH")
    try:
        return read_text(Path(path), SMALL).strip() if path else ""
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read Ray's token: {error}", "RAY_AUTH_TOKEN_PATH names its file") from error


def followers(environ: Mapping[str, str]) -> tuple[Follower[ClusterView], Follower[StoreView]]:
    """Followers of Ray and the store of the lab in `environ`; nothing is asked yet. Raises UsageError."""
    api = RayApi(required(environ, "RAY_API_SERVER_ADDRESS"), ray_token(environ))
    store = ObjectStore(required(environ, "AWS_ENDPOINT_URL"), credentials(environ), REGION)
    cluster = Follower("ray", ClusterSource(api).read)

    def jobs() -> Iterable[Job]:
        return cluster.latest.jobs if cluster.latest is not None else ()

    return cluster, Follower("store", StoreSource(store, jobs).read)


def make_server(host: str, port: int, collector: Any) -> Any:
    """A WSGI server that listens already and serves `/metrics`, under NAMES only. Raises PortTakenError."""
    from wsgiref.simple_server import WSGIRequestHandler, make_server

    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import ThreadingWSGIServer, make_wsgi_app

    class Quiet(WSGIRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: Prometheus asks every few seconds."""

    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    metrics = make_wsgi_app(registry)

    def named(environ: Mapping[str, Any], start_response: Any) -> Any:
        if re.sub(r":\d*$", "", environ.get("HTTP_HOST", "")).lower() in NAMES:
            return metrics(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"served as {', '.join(NAMES)} only\n".encode()]

    try:
        return make_server(host, port, named, ThreadingWSGIServer, handler_class=Quiet)
    except OSError as error:
        raise PortTakenError(
            f"cannot listen on {host}:{port}: {error.strerror}", "choose another --listen"
        ) from error


def listen_address(text: str) -> tuple[str, int]:
    """HOST:PORT. Raises UsageError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--listen {text}: not HOST:PORT", "for example 127.0.0.1:9101")
    return host.strip("[]"), int(port)


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    """Serve until SIGTERM or SIGINT. The exit code is 0, or that of the error that kept it from starting."""
    parser = argparse.ArgumentParser(prog="lab.metrics", description="Serves the lab's metrics.")
    parser.add_argument("--listen", default="127.0.0.1:9101", metavar="HOST:PORT")
    args = parser.parse_args(argv)
    try:
        host, port = listen_address(args.listen)
        cluster, store = followers(environ)
        server = make_server(host, port, LabCollector(cluster, store))
    except LabError as error:
        log(f"{error.message} ({error.hint})" if error.hint else error.message)
        return error.exit_code
    stop = threading.Event()
    for follower in (cluster, store):
        follower.follow(stop)

    def end(*_: Any) -> None:
        threading.Thread(target=server.shutdown, daemon=True).start()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    log(f"serving http://{host}:{server.server_port}/metrics")
    server.serve_forever(poll_interval=0.2)
    stop.set()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
