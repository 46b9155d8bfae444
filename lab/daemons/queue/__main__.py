"""Runs the queues' controller: `python -m lab.daemons.queue --listen HOST:PORT --folder FOLDER`.

Configured by the environment, as `lab.daemons.environment` says, and by:

| variable | says |
| --- | --- |
| RAYLAB_GPU | the GPUs' vendor |
| RAYLAB_GCS_ADDRESS | HOST:PORT of Ray's GCS, by which sick nodes are closed |
| RAYLAB_QUEUED_ONLY | 1: jobs that are submitted past the queues are stopped |
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from lab.cluster.node_sizes import NodeSizes
from lab.daemons import environment
from lab.daemons.parts import Part, devices_of, make_parts
from lab.daemons.queue import aside
from lab.daemons.queue.controller import Controller
from lab.daemons.queue.metrics import exposition
from lab.daemons.queue.packages import Packages
from lab.daemons.queue.rayside import Cluster
from lab.daemons.queue.reconcile import Reconciler
from lab.daemons.queue.routes import Routes
from lab.daemons.queue.store import StateStore
from lab.daemons.queue.workers import Threads
from lab.errors import LabError, RefusedError
from lab.host.files import make_private, take_lock
from lab.host.loops import HEALTH, Loop, Loops
from lab.host.serving import LOOPBACK_NAMES, App, bearing, listen_address, log, make_server, named, serve
from lab.topology import Vendor

LISTEN = "127.0.0.1:8266"
NAME = "queue"
LOCK = "controller.lock"
AMD, NVIDIA = "amd.com/gpu", "nvidia.com/gpu"

TICK_SECONDS = 1.0
"""Time between two ticks of the parts that extensions bring."""

PATIENCE_SECONDS = 10.0
"""Time for a controller that was told to end to let go of the folder."""


def gpu_resource(environ: Mapping[str, str]) -> str:
    """The name of a GPU among the resources of quotas."""
    return AMD if environ.get("RAYLAB_GPU") == Vendor.AMD.value else NVIDIA


def make_app(controller: Controller, parts: Sequence[Part], loops: Loops, token: str, note: str = "") -> App:
    """The WSGI application, for whoever bears Ray's token, under the service's own names only.

    `note` is what a person should know while all is well.
    """
    pages = [page for part in parts for page in part.pages()]
    routes = Routes(controller, exposition(controller, *parts), pages)
    app = loops.reporting(routes, lambda: {"away": dict(controller.away), "detail": note})
    return named(bearing(app, token, public=(HEALTH,)), (*LOOPBACK_NAMES, NAME))


def loops_of(reconciler: Reconciler, parts: Sequence[Part]) -> Loops:
    """The loops of the controller: the queues, and what time brings to the parts."""

    def tick() -> float:
        for part in parts:
            part.tick()
        return TICK_SECONDS

    queues = Loop("queue-loop", reconciler.step, wake=reconciler.controller.wake)
    return Loops((queues, Loop("health", tick)))


def main(
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] = os.environ,
    patience: float = PATIENCE_SECONDS,
) -> int:
    """Serve until SIGTERM or SIGINT. The exit code is 0, or that of the error that kept it from starting.

    `patience` is the time in seconds for an earlier controller to let go of the folder.
    """
    parser = argparse.ArgumentParser(
        prog="lab.daemons.queue", description="Runs the queues' controller.", allow_abbrev=False
    )
    parser.add_argument("--listen", default=LISTEN, metavar="HOST:PORT")
    parser.add_argument("--folder", required=True, type=Path, help="folder of its state")
    args = parser.parse_args(argv)
    try:
        host, port = listen_address(args.listen, LISTEN)
        token = environment.ray_token(environ)
        gcs = NodeSizes(environ.get("RAYLAB_GCS_ADDRESS", ""), token)
        ray = Cluster(environment.ray(environ), environment.object_store(environ), gcs)
        folder = make_private(args.folder)
        try:
            lock = take_lock(folder / LOCK, timeout=patience)
        except BlockingIOError as error:
            raise RefusedError(f"another controller works in {folder}", "end it first") from error
        queued_only = environ.get("RAYLAB_QUEUED_ONLY") == "1"
        resource = gpu_resource(environ)

        def begin(store: StateStore) -> Controller:
            return Controller(store, Packages(folder), resource=resource, queued_only=queued_only)

        controller = aside.open_store(folder, begin, log)
        parts = make_parts(controller.lock, controller.clock, controller.wake.set, log)
        began, states = aside.set_aside_at(folder), partial(devices_of, parts)
        reconciler = Reconciler(controller, ray, Threads(), states=states, say=log, began=began)
        loops = loops_of(reconciler, parts)
        server = make_server(host, port, make_app(controller, parts, loops, token, aside.note(folder)))
    except LabError as error:
        log(f"{error.message} ({error.hint})" if error.hint else error.message)
        return error.exit_code
    loops.start()
    log(f"serving http://{host}:{server.server_port}")
    serve(server)
    loops.end()
    lock.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
