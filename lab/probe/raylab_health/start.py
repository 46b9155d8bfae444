"""Starts a node's health agent as a fork of the node's first process, with which it ends.

`ray_start` calls `beside` before it imports anything: in a container the fork is a small process then, and in
a lab of plain processes it shares its pages with the fork server.
"""

from __future__ import annotations

import contextlib
import os

from raylab_health import companion

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, NoReturn

URL = "RAYLAB_HEALTH_URL"
"""Variable of the controller's address; without it there is no agent."""

PAUSE_SECONDS = 5.0
"""Time in which the node starts alone."""

NICENESS = 10
NAME = "raylab-health"
TIMEOUT_SECONDS = 4.0


def beside(arguments: Sequence[str], *, loopback: bool, environ: Mapping[str, str] = os.environ) -> int:
    """Start the agent of the node that `ray start` with these arguments makes; its process id, 0 for none.

    With `loopback` all nodes are processes of this machine.
    """
    if not environ.get(URL) or not environ.get("RAYLAB_SERVICE_NAME"):
        return 0
    given = gpus(arguments)
    return companion.start(NAME, NICENESS, lambda parent: serve(environ, given, parent, loopback=loopback))


def gpus(arguments: Sequence[str]) -> int:
    """The number of GPUs in `--num-gpus=N`."""
    values = [argument.partition("=")[2] for argument in arguments if argument.startswith("--num-gpus=")]
    return int(values[-1]) if values and values[-1].isdigit() else 0


def serve(environ: Mapping[str, str], gpus: int, parent: int, *, loopback: bool) -> NoReturn:
    """Be the agent, once the node has had time to start: imports too cost it some of a core."""
    import time

    time.sleep(PAUSE_SECONDS)

    from raylab_health.agent import Agent
    from raylab_health.checks import CHECKS
    from raylab_health.model import Context
    from raylab_health.runner import Runner, worker

    os.setpgid(0, 0)
    context = Context(dict(environ))
    me = os.getpid()
    runner = Runner(
        worker({check.name: check for check in CHECKS}, context), lambda: companion.settle(me, NAME, 0)
    )
    node = environ["RAYLAB_SERVICE_NAME"]
    interface, host = ("127.0.0.1", "127.0.0.1") if loopback else ("0.0.0.0", node)
    listener, address = listen(interface, host)
    agent = Agent(
        node,
        os.urandom(8).hex(),
        CHECKS,
        context,
        runner,
        poster(environ[URL], environ.get("RAY_AUTH_TOKEN_PATH", "")),
        gpus=gpus,
        address=address,
    )

    def step() -> None:
        agent.step()
        hang_up(listener)

    companion.repeat(NAME, step, lambda: os.getppid() == parent, time.sleep)
    runner.kill()
    os._exit(0)


def listen(interface: str, host: str) -> tuple[socket.socket | None, str]:
    """A socket at which other nodes see that this one can be reached, and its address; it says nothing."""
    import socket

    try:
        listener = socket.create_server((interface, 0), backlog=64)
    except OSError:
        return None, ""
    listener.setblocking(False)
    return listener, f"{host}:{listener.getsockname()[1]}"


def hang_up(listener: socket.socket | None) -> None:
    """Close what has connected since."""
    with contextlib.suppress(OSError):
        while listener is not None:
            listener.accept()[0].close()


def poster(url: str, token_path: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """A function that sends a report; no proxy is asked, and no redirect is followed."""
    import http.client
    import json
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port

    def post(report: Mapping[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        if token_path:
            with open(token_path, encoding="utf-8") as file:
                headers["Authorization"] = f"Bearer {file.read().strip()}"
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
        try:
            connection.request("POST", "/health/report", json.dumps(report).encode(), headers)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != http.client.OK:
                raise ValueError(f"HTTP {answer.status}: {body[:200]!r}")
            document: dict[str, Any] = json.loads(body)
            return document
        except http.client.HTTPException as error:
            raise OSError(repr(error)) from error
        finally:
            connection.close()

    return post
