"""Starts a node's health agent as a fork of the node's first process, with which it ends.

`ray_start` calls `beside` before it imports anything: in a container the fork is a small process then, and in
a lab of plain processes it shares its pages with the fork server. It belongs to the node: whoever kills,
freezes or cuts off the node does so to its agent too.
"""

from __future__ import annotations

import contextlib
import os
import sys

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, NoReturn

URL = "RAYLAB_HEALTH_URL"
"""Variable of the controller's address; without it there is no agent."""

PAUSE_SECONDS = 5.0
"""Time in which the node starts alone."""

FIRST_SECONDS, LONGEST_SECONDS = 1.0, 30.0
"""Back-off after a step of the agent that failed: the first pause, doubled each time, and the longest."""

NICENESS = 10
NAME = "raylab-health"
TIMEOUT_SECONDS = 4.0
KILL_WITH_PARENT = 1
"""PR_SET_PDEATHSIG."""


def beside(arguments: Sequence[str], *, loopback: bool, environ: Mapping[str, str] = os.environ) -> int:
    """Start the agent of the node that `ray start` with these arguments makes; its process id, 0 for none.

    With `loopback` all nodes are processes of this machine.
    """
    if not environ.get(URL) or not environ.get("RAYLAB_SERVICE_NAME") or not hasattr(os, "fork"):
        return 0
    try:
        parent, pid = os.getpid(), os.fork()
    except OSError as error:  # the node is worth more than its agent
        say(f"no health agent: {error}")
        return 0
    if pid:
        return pid
    code = 1
    try:
        settle(parent, NICENESS)
        serve(environ, gpus(arguments), parent, loopback=loopback)
    except BaseException as error:
        say(f"the health agent has ended: {error!r}")
    finally:
        os._exit(code)


def say(line: str) -> None:
    """Log a line. Raises nothing: the disk may be full."""
    with contextlib.suppress(Exception):
        print(line, file=sys.stderr, flush=True)


def repeat(step: Callable[[], None], goes_on: Callable[[], bool], sleep: Callable[[float], None]) -> None:
    """Make steps as long as `goes_on` says so: one that raises is logged, and repeated after a back-off."""
    failures = 0
    while goes_on():
        try:
            step()
            failures = 0
        except Exception as error:
            if not failures:
                say(f"a step of the health agent failed: {error!r}")
            sleep(min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(failures, 10)))
            failures += 1


def gpus(arguments: Sequence[str]) -> int:
    """The number of GPUs in `--num-gpus=N`."""
    values = [each.partition("=")[2] for each in arguments if each.startswith("--num-gpus=")]
    return int(values[-1]) if values and values[-1].isdigit() else 0


def settle(parent: int, niceness: int) -> None:
    """Be a process of low priority that ends with its parent."""
    import ctypes
    import gc
    import signal

    gc.freeze()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(KILL_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
        with contextlib.suppress(OSError), open("/proc/self/comm", "w") as file:
            file.write(NAME)
    if os.getppid() != parent:
        os._exit(0)
    with contextlib.suppress(OSError):
        os.nice(niceness)


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
    runner = Runner(worker({each.name: each for each in CHECKS}, context), lambda: settle(me, 0))
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

    repeat(step, lambda: os.getppid() == parent, time.sleep)
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
            found: dict[str, Any] = json.loads(body)
            return found
        except http.client.HTTPException as error:
            raise OSError(repr(error)) from error
        finally:
            connection.close()

    return post
