"""Health of services, asked the way their users would: the same questions on every runtime."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lab.cluster.api import Node, RayApi
from lab.errors import ClusterError
from lab.host import http
from lab.host.clock import WALL, Clock
from lab.host.http import TIMEOUT_SECONDS, Reply
from lab.host.reading import parse_json
from lab.host.secrets import Secrets
from lab.runtime.ports import LOOPBACK
from lab.services import HEAD, JUPYTER, PROXY, STORE, is_node, row
from lab.topology import ServiceStatus, State

LONGEST_DETAIL = 500
"""Characters of what a service says of itself that are shown."""

NO_SECRETS = "it cannot be asked: the lab's secrets cannot be read"

Http = Callable[[str, Mapping[str, str]], "Reply | None"]
"""The answer to a GET with these headers, or None when nothing answers."""
ListNodes = Callable[[str, str], Sequence[Node]]
"""The cluster's nodes, from the dashboard's URL and the token. Raises ClusterError."""


def ray_nodes(dashboard: str, token: str) -> Sequence[Node]:
    """The cluster's nodes. Raises ClusterError."""
    return RayApi(dashboard, token).nodes()


def redis_problem(port: int) -> str:
    """The reason why Redis does not serve on this port, or nothing; asking for a password is serving."""
    try:
        with socket.create_connection((LOOPBACK, port), TIMEOUT_SECONDS) as connection:
            connection.sendall(b"PING\r\n")
            answer = connection.recv(64)
    except OSError as error:
        return f"{LOOPBACK}:{port} does not answer ({error})"
    return "" if answer.startswith((b"+PONG", b"-NOAUTH")) else f"{LOOPBACK}:{port} answers {answer!r}"


@dataclass(frozen=True)
class World:
    """All that a runtime asks of the world beside its processes or its engine; tests pass their own."""

    clock: Clock = WALL
    http: Http = http.get
    nodes: ListNodes = ray_nodes
    redis: Callable[[int], str] = redis_problem
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)


@dataclass(frozen=True)
class Seen:
    """Process or container of a service, as its runtime sees it, before the service itself is asked."""

    state: State
    """RUNNING: it can be asked whether it serves."""
    detail: str = ""
    """The reason why it does not serve, where that is known without asking."""
    since: float = 0.0
    """Start time in seconds since the epoch, at the latest: compared with times that Ray gives."""
    own_check: str = ""
    """Problem that the service's own health check finds, for one that is not asked over HTTP."""
    pid: int | None = None
    container: str = ""


Cluster = tuple[Sequence[Node], str]
"""The cluster's nodes, or why they cannot be had."""


@dataclass(frozen=True)
class View:
    """All that is needed to ask a lab's services."""

    ports: Mapping[str, int]
    stand_in: bool
    """True when moto serves in place of MinIO."""
    secrets: Secrets | None
    """None when they cannot be read: then a service that wants one can only be seen to run."""
    world: World = field(default_factory=World)
    gcs_ft: bool = False
    """True when the state of a head outlives it."""
    address: str = ""
    """The class's address, which is shown as the proxy's; its health is asked on loopback."""

    def url(self, service: str) -> str:
        """The loopback URL of a service, or empty when it has none."""
        number = self.ports.get(row(service).url_port)
        return f"http://{LOOPBACK}:{number}" if number else ""

    def cluster(self, head: Seen | None, *, starting: bool = False) -> Cluster:
        """Ray's node list, asked once for all services, and only when there is a head to ask.

        While the head is `starting` its dashboard may take a connection and stay silent: it has to answer a
        short question first.
        """
        if head is None or head.state is not State.RUNNING:
            return (), f"{HEAD} is not running"
        if self.secrets is None:
            return (), ""
        dashboard, token = self.url(HEAD), self.secrets.ray_token
        if starting:
            answers, problem = self._get(f"{dashboard}/api/version", {"Authorization": f"Bearer {token}"})
            if not answers:
                return (), problem
        try:
            return self.world.nodes(dashboard, token), ""
        except ClusterError as error:
            return (), error.message

    def status(self, service: str, seen: Seen, cluster: Cluster) -> ServiceStatus:
        state, detail = seen.state, seen.detail
        if state is State.RUNNING and not detail:
            serves, detail = self._serves(service, seen, cluster)
            if serves:
                state = State.HEALTHY
                if service == STORE:
                    detail = "moto stands in for MinIO" if self.stand_in else "MinIO"
                elif (node := _node(service, seen.since, cluster)) is not None:
                    detail = f"node {node.node_id[:8]} is alive in Ray{self._again(node)}"
        url = self.address if service == PROXY else self.url(service)
        return ServiceStatus(service, state, detail, url, seen.pid, seen.container)

    def _again(self, node: Node) -> str:
        """Words for a head that has died and was started again."""
        if node.starts == 1:
            return ""
        left = "its jobs go on" if self.gcs_ft else "the cluster is a new one, its jobs were lost"
        return f"; it had died and was started again ({node.starts} starts): {left}"

    def statuses(self, seen: Mapping[str, Seen]) -> tuple[tuple[ServiceStatus, ...], str]:
        """The status of every service, and why Ray's nodes cannot be had, if so."""
        cluster = self.cluster(seen.get(HEAD))
        return tuple(self.status(name, sight, cluster) for name, sight in seen.items()), cluster[1]

    def _serves(self, service: str, seen: Seen, cluster: Cluster) -> tuple[bool, str]:
        """Whether a running service serves, and the reason why it does not, or what it says of itself."""
        if is_node(service) and self.secrets is None:
            return False, NO_SECRETS
        if is_node(service):
            alive = not cluster[1] and _node(service, seen.since, cluster) is not None
            return alive, "" if alive else cluster[1] or "its node is not alive in Ray"
        known, url, headers = row(service), self.url(service), {}
        if not url or not known.health:
            return not seen.own_check, seen.own_check
        if service == JUPYTER:
            if self.secrets is None:
                return False, NO_SECRETS
            headers["Authorization"] = f"token {self.secrets.jupyter_token}"
        path = known.stand_in_health if self.stand_in and known.stand_in_health else known.health
        return self._get(url + path, headers)

    def _get(self, url: str, headers: Mapping[str, str]) -> tuple[bool, str]:
        """Whether a GET is answered with 200, and the detail that the answer gives, or the problem."""
        reply = self.world.http(url, headers)
        if reply is None:
            return False, f"{url} does not answer"
        detail = _detail(reply.data)
        if reply.status == 200:
            return True, detail
        return False, detail or f"{url} answers HTTP {reply.status}"


def _detail(data: bytes) -> str:
    """The `detail` of a daemon's page of health (lab.host.loops); empty for any other page."""
    with contextlib.suppress(ValueError):
        page = parse_json(data)
        if isinstance(page, dict) and isinstance(page.get("detail"), str):
            return str(page["detail"])[:LONGEST_DETAIL]
    return ""


def _node(service: str, since: float, cluster: Cluster) -> Node | None:
    """The living node that joined since the service was started.

    An earlier one is what the same service was before: the cluster still lists it for about a second.
    """
    nodes = (n for n in cluster[0] if n.service == service and n.alive and (n.started_at or 0.0) >= since)
    return next(nodes, None)
