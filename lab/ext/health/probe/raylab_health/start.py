"""Starts a node's health agent as a fork of the node's first process, with which it ends.

`ray_start` calls `begin` before it imports anything: in a container the fork is a small process then, and in
a lab of plain processes it shares its pages with the fork server.
"""

from __future__ import annotations

import contextlib
import os

from raylab_node import companion

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn

URL = "RAYLAB_HEALTH_URL"
"""Variable of the controller's address; without it there is no agent."""

PAUSE_SECONDS = 5.0
"""Time in which the node starts alone."""

NAME, NICENESS = "raylab-health", 10


def begin(arguments: Sequence[str], *, loopback: bool) -> None:
    """Start the agent of the node that `ray start` with these arguments makes, if somebody hears it."""
    beside(arguments, loopback=loopback)


def beside(arguments: Sequence[str], *, loopback: bool, environ: Mapping[str, str] = os.environ) -> int:
    """Start the agent of the node that `ray start` with these arguments makes; its process id, 0 for none.

    With `loopback` all nodes are processes of this machine.
    """
    if not environ.get(URL) or not environ.get("RAYLAB_SERVICE_NAME"):
        return 0
    count = gpus(arguments)
    return companion.start(NAME, NICENESS, lambda parent: serve(environ, count, parent, loopback=loopback))


def gpus(arguments: Sequence[str]) -> int:
    """The number of GPUs in `--num-gpus=N`."""
    values = [argument.partition("=")[2] for argument in arguments if argument.startswith("--num-gpus=")]
    return int(values[-1]) if values and values[-1].isdigit() else 0


def serve(environ: Mapping[str, str], count: int, parent: int, *, loopback: bool) -> NoReturn:
    """Be the agent, once the node has had time to start: imports too cost it some of a core."""
    import socket
    import time
    from functools import partial

    time.sleep(PAUSE_SECONDS)

    from raylab_health.loop import Agent, Checker
    from raylab_health.node import Node

    os.setpgid(0, 0)
    name = environ["RAYLAB_SERVICE_NAME"]
    interface, host = ("127.0.0.1", "127.0.0.1") if loopback else ("0.0.0.0", name)
    # Other nodes see by it that this one can be reached; it says nothing.
    listener = socket.create_server((interface, 0), backlog=64)
    listener.setblocking(False)

    def step() -> None:
        agent.step()
        with contextlib.suppress(OSError):
            while True:
                listener.accept()[0].close()

    address = f"{host}:{listener.getsockname()[1]}"
    agent = Agent(name, partial(Checker, Node(environ), count), partial(post, environ), address=address)
    companion.repeat(NAME, step, lambda: os.getppid() == parent, time.sleep)
    os._exit(0)


def post(environ: Mapping[str, str], report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Send a report with Ray's token, and return the answer. Raises OSError, ValueError."""
    import json

    from raylab_node.answers import ask

    headers = {"Content-Type": "application/json"}
    if path := environ.get("RAY_AUTH_TOKEN_PATH"):
        with open(path, encoding="utf-8") as file:
            headers["Authorization"] = f"Bearer {file.read().strip()}"
    answer: Mapping[str, Any] = json.loads(
        ask(f"{environ[URL]}/health/report", headers, json.dumps(report).encode())
    )
    return answer
