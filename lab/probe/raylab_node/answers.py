"""Health checks of containers, with the standard library alone: they run every few seconds.

    python -m raylab_node.answers node      the Ray node of this container is ALIVE in the cluster
    python -m raylab_node.answers http URL  URL answers with 200

The exit code is 0 or 1; the line that is printed says what is missing. `node` reads RAYLAB_SERVICE_NAME,
RAY_API_SERVER_ADDRESS and RAY_AUTH_TOKEN_PATH.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 4.0
TOLERANCE_SECONDS = 1.0
"""The kernel's clock ticks are coarse."""

FORGOTTEN_SECONDS = 120.0
"""After this time no node of the container's last life is alive in Ray any more, stock settings included."""

LONGEST_DETAIL = 500
"""Characters of what a service says of itself that are printed."""

NODES = "/api/v0/nodes?detail=1&limit=1000"

Get = Callable[[str, Mapping[str, str]], bytes]


def ask(url: str, headers: Mapping[str, str], data: bytes | None = None) -> bytes:
    """The body of what is answered with 200, to a GET or to a POST of `data`. Raises OSError.

    Proxies are not asked.
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, data, dict(headers))
    with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
        body: bytes = answer.read()
    return body


def node_problem(name: str, rows: Sequence[Mapping[str, Any]], since: float) -> str:
    """Problem of the node called `name`, of a container started at `since`; empty when it is alive.

    `rows` are of Ray's state API. For about a second they still list the node of the container's last life.
    """
    for row in rows:
        started = (row.get("start_time_ms") or 0) / 1000
        if row.get("node_name") == name and row.get("state") == "ALIVE" and started >= since:
            return ""
    return f"node {name} is not alive in Ray"


def container_started(proc: Path = Path("/proc")) -> float:
    """Start time of this container's first process, in seconds since the epoch; 0 when that is long ago.

    Then Ray has forgotten the node of the last life, and a clock that was set meanwhile, as after a virtual
    machine was suspended, must not make this life's node look older than its container.
    """
    ticks = int((proc / "1" / "stat").read_text().rpartition(")")[2].split()[19])
    up = float((proc / "uptime").read_text().split()[0])
    age = up - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age if age < FORGOTTEN_SECONDS else 0.0


def node(environment: Mapping[str, str], since: float, fetch: Get = ask) -> str:
    """Problem of this container's node; empty when it is alive."""
    address, name = environment["RAY_API_SERVER_ADDRESS"], environment["RAYLAB_SERVICE_NAME"]
    token = Path(environment["RAY_AUTH_TOKEN_PATH"]).read_text().strip()
    try:
        body = fetch(address + NODES, {"Authorization": f"Bearer {token}"})
        return node_problem(name, json.loads(body)["data"]["result"]["result"], since - TOLERANCE_SECONDS)
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{address} cannot be asked: {error}"


def http(url: str, fetch: Get = ask) -> str:
    """Problem of `url`; empty when it serves."""
    try:
        fetch(url, {})
    except urllib.error.HTTPError as error:  # a daemon of the lab says what is wrong with it
        return f"{url}: {_detail(error) or error}"
    except (OSError, ValueError) as error:
        return f"{url}: {error}"
    return ""


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read())["detail"])[:LONGEST_DETAIL]
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def main(argv: Sequence[str]) -> int:
    """Ask, print the problem, return the exit code."""
    if argv[:1] == ["node"] and len(argv) == 1:
        problem = node(os.environ, container_started())
    elif argv[:1] == ["http"] and len(argv) == 2:
        problem = http(argv[1])
    else:
        problem = f"usage: {__doc__}"
    if problem:
        print(problem)
    return 1 if problem else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
