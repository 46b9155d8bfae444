"""Serves the lab's metrics, and Prometheus' and Alertmanager's pages: `python -m lab.daemons.metrics`.

Configured by the environment, as `lab.daemons.environment` says.
"""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from lab.cluster.jobs import Job
from lab.daemons import environment
from lab.daemons.metrics.collector import LabCollector
from lab.daemons.metrics.follower import Follower
from lab.daemons.metrics.guard import make_guard, read_guard
from lab.daemons.metrics.sources import ClusterSource, ClusterView, StoreSource, StoreView
from lab.errors import LabError
from lab.host.loops import Loop, Loops
from lab.host.serving import LOOPBACK_NAMES, App, listen_address, log, make_server, named, serve
from lab.services import METRICS

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

LISTEN = "127.0.0.1:9101"


def followers(environ: Mapping[str, str]) -> tuple[Follower[ClusterView], Follower[StoreView]]:
    """Followers of Ray and the store of the lab in `environ`; nothing is asked yet. Raises UsageError."""
    cluster = Follower("ray", ClusterSource(environment.ray(environ)).read)

    def jobs() -> Iterable[Job]:
        return cluster.latest.jobs if cluster.latest is not None else ()

    return cluster, Follower("store", StoreSource(environment.object_store(environ), jobs).read)


def make_app(collector: Collector, loops: Loops) -> App:
    """The WSGI application that serves a collector's metrics and tells of the loops, under its own names."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import make_wsgi_app

    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return named(loops.reporting(make_wsgi_app(registry)), (*LOOPBACK_NAMES, METRICS))


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    """Serve until SIGTERM or SIGINT. The exit code is 0, or that of the error that kept it from starting."""
    parser = argparse.ArgumentParser(
        prog="lab.daemons.metrics", description="Serves the lab's metrics.", allow_abbrev=False
    )
    parser.add_argument("--listen", default=LISTEN, metavar="HOST:PORT")
    parser.add_argument(
        "--guard", action="append", default=[], metavar="HOST:PORT=URL",
        help="serve what is at URL: Prometheus, Alertmanager; repeatable",
    )  # fmt: skip
    args = parser.parse_args(argv)
    try:
        host, port = listen_address(args.listen, LISTEN)
        cluster, store = followers(environ)
        loops = Loops(Loop(follower.name, follower.look) for follower in (cluster, store))
        server = make_server(host, port, make_app(LabCollector(cluster, store), loops))
        for text in args.guard:
            host_too, port_too, url = read_guard(text)
            guard = make_server(host_too, port_too, make_guard(url))
            threading.Thread(target=guard.serve_forever, name="guard", daemon=True).start()
    except LabError as error:
        log(f"{error.message} ({error.hint})" if error.hint else error.message)
        return error.exit_code
    loops.start()
    log(f"serving http://{host}:{server.server_port}/metrics")
    serve(server)
    loops.end()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
