"""Whether a service of the compose runtime serves: its container's state, then a user's question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lab.cluster.api import Node, RayApi
from lab.errors import ClusterError
from lab.host.http import http_status
from lab.host.secrets import Secrets
from lab.runtime.compose.engine import Container
from lab.runtime.compose.project import PORT_OF
from lab.runtime.ports import LOOPBACK
from lab.topology import (
    GRAFANA,
    HEAD,
    JUPYTER,
    METRICS,
    PROMETHEUS,
    REDIS,
    STORE,
    ServiceStatus,
    State,
    is_node,
)

START_TOLERANCE_SECONDS = 1.0
"""The engine may lie in a virtual machine whose clock is a little off."""


Http = Callable[[str, Mapping[str, str]], "int | None"]
"""The HTTP status of a GET with these headers, or None when nothing answers."""
ListNodes = Callable[[str, str], Sequence[Node]]
"""The cluster's nodes, from the dashboard's URL and the token. Raises ClusterError."""


def ray_nodes(dashboard: str, token: str) -> Sequence[Node]:
    """The cluster's nodes. Raises ClusterError."""
    return RayApi(dashboard, token).nodes()


@dataclass(frozen=True)
class View:
    """What is needed to ask a lab's services."""

    ports: Mapping[str, int]
    offline: bool
    secrets: Secrets | None
    """None when they cannot be read: then a service that wants one can only be seen to run."""
    http: Http = http_status
    list_nodes: ListNodes = ray_nodes

    def url(self, service: str) -> str:
        """The loopback URL of a service, or empty when it publishes no port."""
        name = PORT_OF.get(service, "")
        return f"http://{LOOPBACK}:{self.ports[name]}" if name in self.ports else ""

    def nodes(self) -> Sequence[Node]:
        """The cluster's nodes. Raises ClusterError."""
        if self.secrets is None:
            return ()
        return self.list_nodes(self.url(HEAD), self.secrets.ray_token)


def nodes_or_problem(view: View) -> tuple[Sequence[Node], str]:
    """The cluster's nodes, or why they cannot be had."""
    try:
        return view.nodes(), ""
    except ClusterError as error:
        return (), error.message


def service_status(
    view: View, service: str, container: Container | None, nodes: Sequence[Node], problem: str = ""
) -> ServiceStatus:
    """What a service does now. `nodes` are the cluster's, or `problem` says why they cannot be had."""
    url = view.url(service)
    if container is None:
        return ServiceStatus(service, State.ABSENT, "not started", url)
    short = container.id[:12]
    still = _not_running(container)
    if still is not None:
        return ServiceStatus(service, still[0], still[1], url, container=short)
    detail = _serves(view, service, container, nodes, problem)
    if detail:
        return ServiceStatus(service, State.RUNNING, detail, url, container=short)
    said = ""
    if service == STORE:
        said = "moto stands in for MinIO" if view.offline else "MinIO"
    elif is_node(service):
        said = f"node {_node(service, container, nodes)[:8]} is alive in Ray"
    return ServiceStatus(service, State.HEALTHY, said, url, container=short)


def _not_running(container: Container) -> tuple[State, str] | None:
    if container.state == "created":
        return State.ABSENT, container.error or "not started"
    if container.state == "paused":
        return State.PAUSED, "its container is paused"
    if container.state == "restarting":
        return State.STARTING, f"it ended with exit code {container.exit_code} and is started again"
    if container.state != "running":
        return State.EXITED, ended(container)
    if container.cut:
        return State.RUNNING, "its container is cut off the lab's network"
    return None


def ended(container: Container) -> str:
    """How a container ended, in words."""
    if container.out_of_memory:
        return "its container was killed: it reached its memory limit"
    if container.exit_code == 137:
        return "its container was killed (SIGKILL)"
    if container.exit_code == 143:
        return "its container was ended (SIGTERM)"
    return container.error or f"its container has ended with exit code {container.exit_code}"


def _serves(view: View, service: str, container: Container, nodes: Sequence[Node], problem: str) -> str:
    """What is missing until a running service serves, or nothing."""
    if is_node(service):
        if view.secrets is None:
            return "it cannot be asked: the lab's secrets cannot be read"
        if problem:
            return problem
        return "" if _node(service, container, nodes) else "its node is not alive in Ray"
    if service in (METRICS, REDIS):
        said = f": {container.health_output}" if container.health_output else ""
        return (
            "" if container.health in ("healthy", "") else f"its health check says {container.health}{said}"
        )
    headers: dict[str, str] = {}
    if service == JUPYTER:
        if view.secrets is None:
            return "it cannot be asked: the lab's secrets cannot be read"
        headers["Authorization"] = f"token {view.secrets.jupyter_token}"
    path = {
        STORE: "/raylab/health" if view.offline else "/minio/health/live",
        PROMETHEUS: "/-/ready",
        GRAFANA: "/api/health",
        JUPYTER: "/api/status",
    }[service]
    url = view.url(service) + path
    status = view.http(url, headers)
    if status == 200:
        return ""
    return f"{url} does not answer" if status is None else f"{url} answers HTTP {status}"


def _node(service: str, container: Container, nodes: Sequence[Node]) -> str:
    """The id of the living node that joined since this container was started, or nothing."""
    since = container.started_at - START_TOLERANCE_SECONDS
    found = (n for n in nodes if n.service == service and n.alive and (n.started_at or 0.0) >= since)
    return next((node.node_id for node in found), "")
