"""The lab as its own JupyterLab sees it: from a container, without Docker and without the host.

What it needs is in the environment of that container. It can use the lab; what only the host can do it
refuses, and says what to type there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from lab.cluster.api import Node, RayApi
from lab.errors import ClusterError, LabDownError, RefusedError, ServiceError, UnsupportedError, UsageError
from lab.host.http import http_status
from lab.host.reading import SMALL, read_text
from lab.host.secrets import key_from
from lab.runtime.base import Execution, Feature, OnProgress, Runtime, ignore_progress
from lab.topology import (
    DEFAULT_LAB,
    GRAFANA,
    HEAD,
    JUPYTER,
    PROMETHEUS,
    STORE,
    Credentials,
    Endpoints,
    GpuAssignment,
    GpuPlan,
    LabSpec,
    LabStatus,
    ServiceStatus,
    State,
    Vendor,
    is_worker,
    worker,
)

GCS_PORT = 6379

HEALTH = {
    STORE: ("/minio/health/live", "/raylab/health"),
    PROMETHEUS: ("/-/ready",),
    GRAFANA: ("/api/health",),
}
"""Where a service says that it serves; of more than one, any will do (the store may be the stand-in)."""

WITHIN = {PROMETHEUS: "http://prometheus:9090", GRAFANA: "http://grafana:3000"}
"""Addresses on the lab's own network that no variable has."""

NEEDED = ("RAY_API_SERVER_ADDRESS", "RAY_AUTH_TOKEN_PATH", "AWS_ENDPOINT_URL")


class InsideRuntime(Runtime):
    """One lab of containers, from inside. Ray's node list says what it consists of."""

    kind = "inside"

    def __init__(
        self,
        lab: str,
        environment: Mapping[str, str] = os.environ,
        *,
        http: Callable[[str], int | None] = http_status,
        list_nodes: Callable[[str, str], Sequence[Node]] | None = None,
    ) -> None:
        """`environment` is that of the container; `http` and `list_nodes` ask the services.

        Raises UnsupportedError for another lab than the container's, or where a variable is missing.
        """
        super().__init__(lab)
        own = environment.get("RAYLAB_NAME", DEFAULT_LAB)
        if lab != own:
            raise UnsupportedError(
                f"lab {lab} cannot be reached from inside lab {own}",
                f"on the host: labctl status --name {lab}",
            )
        missing = [name for name in NEEDED if not environment.get(name)]
        if missing:
            raise UnsupportedError(
                f"this is no container of a lab: {missing[0]} is not set", "leave RAYLAB_RUNTIME out"
            )
        self._env, self._http = environment, http
        self._list = list_nodes or (lambda url, token: RayApi(url, token).nodes())

    # The whole lab

    def up(self, spec: LabSpec, on_progress: OnProgress = ignore_progress) -> LabStatus:
        """See Runtime.up. A lab that is up stays as it is; only the host can start one.

        Raises UnsupportedError, RefusedError.
        """
        del on_progress
        status = self.status()
        if not status.healthy:
            raise self._host("start what does not run", "up")
        current = self.spec()
        asked = (spec.workers, spec.cpus_per_worker, spec.gpu.vendor)
        if asked != (current.workers, current.cpus_per_worker, current.gpu.vendor):
            raise RefusedError(
                f"lab {self.lab} is up with other settings ({current.settings})",
                f"keep them, or on the host: labctl down --name {self.lab}, then start it anew",
            )
        return status

    def down(self, *, volumes: bool = False, on_progress: OnProgress = ignore_progress) -> tuple[str, ...]:
        """Raises UnsupportedError."""
        del on_progress
        raise self._host("take the lab down", f"down{' --volumes' if volumes else ''}")

    def status(self) -> LabStatus:
        """See Runtime.status. Prometheus and Grafana are left out when they do not answer."""
        notes: tuple[str, ...] = ("seen from inside the lab: Prometheus and Grafana only while they answer",)
        try:
            nodes: Sequence[Node] = self._nodes()
            why = ""
        except (ClusterError, ServiceError) as error:
            nodes, why = (), error.message
        found = [self._store(), *self._optional(), *_node_states(nodes, why)]
        if not why:  # a head that was restarted has forgotten its workers
            listed = _newest(nodes)
            found += [
                ServiceStatus(name, State.STARTING, "not in Ray's node list")
                for name in map(worker, range(self._expected()))
                if name not in listed
            ]
        found = [
            ServiceStatus(s.service, s.state, s.detail, self._url(s.service)) if not s.url else s
            for s in found
        ]
        found.append(ServiceStatus(JUPYTER, State.HEALTHY, "this process runs in it", self._url(JUPYTER)))
        up = not why
        return LabStatus(self.lab, self.kind, up, tuple(found), self._plan(nodes), notes)

    def spec(self) -> LabSpec:
        """See Runtime.spec: as Ray's node list has it, without the ports and the GPUs' names.

        The number of workers is what the lab was started with, where the environment says it.
        """
        try:
            nodes = self._nodes()
        except ClusterError as error:
            raise LabDownError(
                f"lab {self.lab} does not answer: {error.message}",
                f"on the host: labctl up --name {self.lab}",
            ) from error
        workers = _newest(nodes)
        cpus = {int(node.resources.get("CPU", 0)) for name, node in workers.items() if is_worker(name)}
        return LabSpec(
            self.lab,
            self._plan(nodes),
            workers=self._expected() or max(1, sum(1 for name in workers if is_worker(name))),
            cpus_per_worker=max({1, *cpus}),
        )

    def endpoints(self) -> Endpoints:
        """See Runtime.endpoints: addresses on the lab's own network. Raises ServiceError."""
        return Endpoints(
            dashboard=self._env["RAY_API_SERVER_ADDRESS"],
            gcs=f"{HEAD}:{GCS_PORT}",
            s3=self._env["AWS_ENDPOINT_URL"],
            credentials=self._credentials(),
            ray_token=self._token(),
            ray_token_file=self._env["RAY_AUTH_TOKEN_PATH"],
            jupyter=self._url(JUPYTER),
            prometheus=WITHIN[PROMETHEUS],
            grafana=WITHIN[GRAFANA],
        )

    # One service: the host's business

    def logs(self, service: str, *, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        """Raises UnsupportedError."""
        del follow, tail
        raise self._host(f"read the log of {service}", f"logs {service}")

    def kill(self, service: str) -> None:
        """Raises UnsupportedError."""
        raise self._host(f"kill {service}", f"fault-inject {service}")

    def stop(self, service: str, *, timeout: float = 10.0) -> None:
        """Raises UnsupportedError."""
        del timeout
        raise UnsupportedError(
            f"cannot stop {service} from inside lab {self.lab}",
            f"on the host: labctl restart {service} --name {self.lab}; to break it on purpose: "
            f"labctl fault-inject {service} --fault stop --name {self.lab}",
        )

    def pause(self, service: str) -> None:
        """Raises UnsupportedError."""
        raise self._host(f"pause {service}", f"fault-inject {service} --fault pause")

    def resume(self, service: str) -> None:
        """Raises UnsupportedError."""
        raise self._host(f"resume {service}", f"restart {service}")

    def missing(self, feature: Feature) -> str:
        """See Runtime.missing."""
        del feature
        return f"only the host can tell: labctl faults --name {self.lab} there"

    def folder(self) -> Path:
        """Raises UnsupportedError."""
        raise self._host("keep notes of the lab", "status")

    def set_training_key(self, enabled: bool) -> None:
        """Raises UnsupportedError."""
        what = "let the store accept the training key" if enabled else "take the training key's rights"
        raise self._host(what, "fault-inject minio --fault s3-credentials-revoked")

    def crash(self, service: str) -> None:
        """Raises UnsupportedError."""
        raise self._host(f"crash {service}", f"fault-inject {service} --fault crash-restart")

    def disconnect(self, service: str) -> None:
        """Raises UnsupportedError."""
        raise self._host(f"cut {service} off the network", f"fault-inject {service} --fault partition")

    def reconnect(self, service: str) -> None:
        """Raises UnsupportedError."""
        raise self._host(f"connect {service} to the network", f"restart {service}")

    def impair(
        self, service: str, *, delay_ms: float = 0.0, loss_percent: float = 0.0, rate_mbit: float = 0.0
    ) -> None:
        """Raises UnsupportedError."""
        del delay_ms, loss_percent, rate_mbit
        what = f"slow down the network of {service}"
        raise self._host(what, f"fault-inject {service} --fault slow-network")

    def unimpair(self, service: str) -> None:
        """Raises UnsupportedError."""
        raise self._host(f"speed up the network of {service}", f"restart {service}")

    def execute(
        self,
        service: str,
        argv: Sequence[str],
        *,
        timeout: float = 60.0,
        on_line: Callable[[str], None] | None = None,
    ) -> Execution:
        """Raises UnsupportedError."""
        del argv, timeout, on_line
        raise self._host(f"run a command in {service}", "status")

    def start(self, service: str, on_progress: OnProgress = ignore_progress, *, wait: bool = True) -> None:
        """Raises UnsupportedError."""
        del on_progress, wait
        raise self._host(f"start {service}", f"restart {service}")

    # Inside

    def _host(self, what: str, command: str) -> UnsupportedError:
        return UnsupportedError(
            f"cannot {what} from inside lab {self.lab}", f"on the host: labctl {command} --name {self.lab}"
        )

    def _url(self, service: str) -> str:
        """Where a browser on the host finds the service."""
        variable = {
            HEAD: "RAYLAB_DASHBOARD_URL",
            STORE: "RAYLAB_S3_URL",
            JUPYTER: "RAYLAB_JUPYTER_URL",
            PROMETHEUS: "RAYLAB_PROMETHEUS_URL",
            GRAFANA: "RAYLAB_GRAFANA_URL",
        }.get(service, "")
        return self._env.get(variable, "")

    def _expected(self) -> int:
        """Workers that the lab was started with; 0 where the environment does not say."""
        said = self._env.get("RAYLAB_WORKERS", "")
        return int(said) if said.isdecimal() else 0

    def _nodes(self) -> Sequence[Node]:
        return self._list(self._env["RAY_API_SERVER_ADDRESS"], self._token())

    def _store(self) -> ServiceStatus:
        base = self._env["AWS_ENDPOINT_URL"].rstrip("/")
        if self._serves(STORE, base):
            return ServiceStatus(STORE, State.HEALTHY)
        return ServiceStatus(STORE, State.EXITED, f"{base} does not answer")

    def _optional(self) -> list[ServiceStatus]:
        return [
            ServiceStatus(service, State.HEALTHY)
            for service, base in WITHIN.items()
            if self._serves(service, base)
        ]

    def _serves(self, service: str, base: str) -> bool:
        return any(self._http(base + path) == 200 for path in HEALTH[service])

    def _plan(self, nodes: Sequence[Node]) -> GpuPlan:
        having = [
            name
            for name, node in _newest(nodes).items()
            if is_worker(name) and node.resources.get("GPU", 0) > 0
        ]
        if not having:
            return GpuPlan(Vendor.NONE, reason="no node offers a GPU")
        known = {vendor.value: vendor for vendor in (Vendor.NVIDIA, Vendor.AMD)}
        vendor = known.get(self._env.get("RAYLAB_GPU", ""), Vendor.SIMULATED)
        return GpuPlan(vendor, tuple(GpuAssignment(name) for name in having), "what the nodes offer")

    def _token(self) -> str:
        path = self._env["RAY_AUTH_TOKEN_PATH"]
        try:
            return read_text(Path(path), SMALL).strip()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", error)
            raise ServiceError(f"cannot read Ray's token {path}: {why}") from error

    def _credentials(self) -> Credentials:
        try:
            key = key_from(self._env)
        except UsageError as error:
            raise ServiceError(f"no key of the object store: {error.message}") from error
        if key is None:
            raise ServiceError("no key of the object store: AWS_SHARED_CREDENTIALS_FILE is not set")
        return key


def _newest(nodes: Sequence[Node]) -> dict[str, Node]:
    """The newest node of each service, services in order."""
    newest = {node.service: node for node in sorted(nodes, key=lambda node: node.started_at or 0.0)}
    return dict(sorted(newest.items()))


def _node_states(nodes: Sequence[Node], why: str) -> list[ServiceStatus]:
    """The head and every worker that Ray ever knew; without an answer only the head, and `why`."""
    if why:
        return [ServiceStatus(HEAD, State.EXITED, why)]
    return [
        ServiceStatus(name, State.HEALTHY, f"node {node.node_id[:8]} is alive in Ray")
        if node.alive
        else ServiceStatus(name, State.EXITED, f"its node is dead in Ray: {node.reason or 'no reason given'}")
        for name, node in _newest(nodes).items()
    ]
