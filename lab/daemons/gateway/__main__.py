"""Runs the gateway of a class: `python -m lab.daemons.gateway --listen HOST:PORT --people FOLDER`.

Configured by the environment:

| variable | says |
| --- | --- |
| RAY_API_SERVER_ADDRESS | Ray's dashboard |
| RAY_AUTH_TOKEN_PATH | the file that holds Ray's token, which the controller of the queues wants, too |
| RAYLAB_QUEUE_ADDRESS | the controller of the queues |
| RAYLAB_HOME, RAYLAB_NAME | the lab, if it is one of processes: labctl injects faults into it |
| AWS_ENDPOINT_URL | the object store, where the class's page finds receipts; a person's own key opens it |
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.daemons import environment
from lab.daemons.gateway.faults import breaker
from lab.daemons.gateway.page.receipts import OpenStore
from lab.daemons.gateway.server import make_app
from lab.errors import LabError, PortTakenError
from lab.host.serving import listen_address, log
from lab.people.registry import Registry
from lab.store import ObjectStore

LISTEN = "127.0.0.1:8280"

BACKLOG = 1024
"""Connections that may wait to be accepted; those beyond are not answered until their client tries again."""

KEPT_SECONDS = 180.0
"""Life of an idle connection: longer than the proxy's own 120 s, or a request on its way would be lost."""


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    """Serve until SIGTERM or SIGINT. The exit code is 0, or that of the error that kept it from starting."""
    parser = argparse.ArgumentParser(
        prog="lab.daemons.gateway", description="Runs the gateway of a class.", allow_abbrev=False
    )
    parser.add_argument("--listen", default=LISTEN, metavar="HOST:PORT")
    parser.add_argument("--people", required=True, type=Path, help="folder of the list of people")
    args = parser.parse_args(argv)
    try:
        host, port = listen_address(args.listen, LISTEN)
        ray = environment.required(environ, "RAY_API_SERVER_ADDRESS"), environment.ray_token(environ)
        queue = environment.required(environ, "RAYLAB_QUEUE_ADDRESS")
        store = _store(environ.get("AWS_ENDPOINT_URL", ""))
        app = make_app(Registry(args.people), ray, queue, log, store, breaker(environ, ray))
        _run(app, host, port)
    except LabError as error:
        log(f"{error.message} ({error.hint})" if error.hint else error.message)
        return error.exit_code
    return 0


def _store(address: str) -> OpenStore | None:
    return (lambda key: ObjectStore(address, key)) if address else None


def _run(app: object, host: str, port: int) -> None:
    from aiohttp import web

    assert isinstance(app, web.Application)
    try:
        web.run_app(
            app, host=host, port=port, access_log=None, print=log, shutdown_timeout=2.0,
            backlog=BACKLOG, keepalive_timeout=KEPT_SECONDS,
        )  # fmt: skip
    except OSError as error:
        hint = "choose another --listen"
        raise PortTakenError(f"cannot listen on {host}:{port}: {error.strerror}", hint) from error


if __name__ == "__main__":
    raise SystemExit(main())
