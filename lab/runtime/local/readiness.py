"""Whether a service of the local runtime serves, asked the way its users would."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.cluster.api import Node, RayApi
from lab.errors import ClusterError
from lab.host.http import TIMEOUT_SECONDS, http_status
from lab.runtime.local import processes
from lab.runtime.local.services import Plan
from lab.runtime.local.state import LabState
from lab.runtime.ports import LOOPBACK
from lab.topology import HEAD, JUPYTER, METRICS, PROMETHEUS, REDIS, STORE, ServiceStatus, State, is_worker


@dataclass(frozen=True)
class Readiness:
    """`ready`, or what is still missing."""

    ready: bool
    detail: str = ""


def probe(plan: Plan, service: str, *, after: float, nodes: Sequence[Node] | None = None) -> Readiness:
    """Whether `service`, started at `after` (seconds since the epoch), serves now.

    A node counts only when it joined after its process was started: for about a second the cluster still
    lists the node that the same service was before. `nodes` saves a request when the caller has just asked.
    """
    if service == STORE:
        path = "/minio/health/live" if plan.store == "minio" else "/raylab/health"
        return _http(plan.url("s3") + path, {200})
    if service == PROMETHEUS:
        return _http(plan.url("prometheus") + "/-/ready", {200})
    if service == METRICS:
        return _http(plan.url("metrics") + "/metrics", {200})
    if service == JUPYTER:
        authorization = {"Authorization": f"token {plan.secrets.jupyter_token}"}
        return _http(plan.url("jupyter") + "/api/status", {200}, authorization)
    if service == REDIS:
        return _redis(plan.ports["redis"])
    assert service == HEAD or is_worker(service), service
    if nodes is None:
        api = RayApi(plan.url("dashboard"), plan.secrets.ray_token)
        try:
            api.get("/api/version", timeout=TIMEOUT_SECONDS)
            nodes = api.nodes()
        except ClusterError as error:
            return Readiness(False, error.message)
    for node in nodes:
        if node.service == service and node.alive and (node.started_at or 0.0) >= after - 1.0:
            return Readiness(True, f"node {node.node_id[:8]} is alive in Ray")
    return Readiness(False, "its node is not alive in Ray")


def service_status(
    plan: Plan, current: LabState, service: str, nodes: Sequence[Node] | None, *, secrets: bool = True
) -> ServiceStatus:
    """What a service does now. Without `secrets` one that asks for a token can only be seen to run."""
    url = {
        STORE: plan.url("s3"),
        HEAD: plan.url("dashboard"),
        JUPYTER: plan.url("jupyter"),
    }.get(service, plan.url(service) if service in (PROMETHEUS, METRICS) else "")
    identity = current.leaders.get(service)
    if identity is None:
        return ServiceStatus(service, State.ABSENT, "not started", url)
    process = None if current.stale else processes.find(identity)
    if process is None:
        return ServiceStatus(service, State.EXITED, "its process has ended", url)
    if processes.frozen([process]):
        return ServiceStatus(service, State.PAUSED, "its processes are frozen", url, identity.pid)
    if not secrets and service not in (STORE, PROMETHEUS, METRICS, REDIS):
        detail = "it cannot be asked: the lab's secrets cannot be read"
        return ServiceStatus(service, State.RUNNING, detail, url, identity.pid)
    ready = probe(plan, service, after=identity.spawned_at, nodes=nodes)
    detail = ready.detail
    if service == STORE and ready.ready:
        detail = "MinIO" if plan.store == "minio" else "moto stands in for MinIO"
    return ServiceStatus(service, State.HEALTHY if ready.ready else State.RUNNING, detail, url, identity.pid)


def _redis(port: int) -> Readiness:
    """Whether Redis answers; that it wants a password is an answer, too."""
    try:
        with socket.create_connection((LOOPBACK, port), TIMEOUT_SECONDS) as connection:
            connection.sendall(b"PING\r\n")
            answer = connection.recv(64)
    except OSError as error:
        return Readiness(False, f"{LOOPBACK}:{port} does not answer ({error})")
    ready = answer.startswith((b"+PONG", b"-NOAUTH"))
    return Readiness(ready, "" if ready else f"{LOOPBACK}:{port} answers {answer!r}")


def _http(url: str, accepted: set[int], headers: Mapping[str, str] | None = None) -> Readiness:
    status = http_status(url, headers)
    if status in accepted:
        return Readiness(True)
    return Readiness(False, f"{url} does not answer" if status is None else f"{url} answers HTTP {status}")
