"""The lab as its own JupyterLab sees it: from a container, without Docker and without the host.

All it needs is in the environment of that container. It can use the lab; acts that only the host can do are
refused, with the command to type there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from lab.cluster.api import Node
from lab.errors import ClusterError, LabDownError, RefusedError, ServiceError, UnsupportedError, UsageError
from lab.host.reading import SMALL, read_text
from lab.host.secrets import key_from
from lab.runtime.base import Feature, OnProgress, Runtime, ignore_progress
from lab.runtime.health import World
from lab.services import (
    ALERTMANAGER,
    GRAFANA,
    HEAD,
    JUPYTER,
    PORTS,
    PROMETHEUS,
    QUEUE,
    SERVICES,
    STORE,
    is_worker,
    row,
    worker,
)
from lab.topology import (
    DEFAULT_LAB,
    Credentials,
    Endpoints,
    GpuAssignment,
    GpuPlan,
    LabSpec,
    LabStatus,
    ServiceStatus,
    State,
    Vendor,
)

NEEDED = ("RAY_API_SERVER_ADDRESS", "RAY_AUTH_TOKEN_PATH", "AWS_ENDPOINT_URL")


def _within(service: str) -> str:
    """The address of a service on the lab's own network, where no variable has it."""
    return f"http://{service}:{row(service).ports[0].usual}"


def _host_only(what: str, command: str) -> Callable[..., Any]:
    """An act on a service that only the host can do: its name, and labctl's command for it there."""

    def refuse(self: InsideRuntime, service: str = "", *_: object, **__: object) -> Any:
        raise self._host(what.format(service), command.format(service))

    return refuse


class InsideRuntime(Runtime):
    """One lab of containers, from inside. Ray's node list says what it consists of."""

    kind = "inside"

    def __init__(
        self, lab: str, environment: Mapping[str, str] = os.environ, *, world: World | None = None
    ) -> None:
        """`environment` is that of the container.

        Raises UnsupportedError for another lab than the container's, or where a variable is missing.
        """
        super().__init__(lab)
        own = environment.get("RAYLAB_NAME", DEFAULT_LAB)
        if lab != own:
            raise UnsupportedError(
                f"lab {lab} cannot be reached from inside lab {own}",
                f"on the host: labctl status --lab {lab}",
            )
        missing = [name for name in NEEDED if not environment.get(name)]
        if missing:
            raise UnsupportedError(
                f"this is not a container of a lab: {missing[0]} is not set", "leave RAYLAB_RUNTIME out"
            )
        self._env, self._world = environment, world or World()

    # The whole lab

    def up(self, spec: LabSpec, on_progress: OnProgress = ignore_progress) -> LabStatus:
        """Leave a lab that is up as it is; only the host can start one.

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
                f"keep them, or on the host: labctl down --lab {self.lab}, then start it anew",
            )
        return status

    def down(self, *, volumes: bool = False, on_progress: OnProgress = ignore_progress) -> tuple[str, ...]:
        """Refuse: only the host can stop a lab. Raises UnsupportedError."""
        del on_progress
        raise self._host("take the lab down", f"down{' --volumes' if volumes else ''}")

    def status(self) -> LabStatus:
        """State of every service. Prometheus and Grafana are left out when they do not answer."""
        notes: tuple[str, ...] = ("seen from inside the lab: Prometheus and Grafana only while they answer",)
        try:
            nodes: Sequence[Node] = self._nodes()
            why = ""
        except (ClusterError, ServiceError) as error:
            nodes, why = (), error.message
        statuses = [self._store(), *self._optional(), *self._queue(), *_node_states(nodes, why)]
        if not why:  # a head that was restarted has forgotten its workers
            listed = _newest(nodes)
            statuses += [
                ServiceStatus(name, State.STARTING, "not in Ray's node list")
                for name in map(worker, range(self._expected()))
                if name not in listed
            ]
        statuses = [
            ServiceStatus(s.service, s.state, s.detail, self._url(s.service)) if not s.url else s
            for s in statuses
        ]
        statuses.append(ServiceStatus(JUPYTER, State.HEALTHY, "this process runs in it", self._url(JUPYTER)))
        up = not why
        return LabStatus(self.lab, self.kind, up, tuple(statuses), self._plan(nodes), notes)

    def spec(self) -> LabSpec:
        """Settings of the lab as Ray's node list has them, without the ports and the GPUs' names.

        The number of workers is what the lab was started with, where the environment says it.
        """
        try:
            nodes = self._nodes()
        except ClusterError as error:
            raise LabDownError(
                f"lab {self.lab} does not answer: {error.message}",
                f"on the host: labctl up --lab {self.lab}",
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
        """Addresses on the lab's own network. Raises ServiceError."""
        return Endpoints(
            dashboard=self._env["RAY_API_SERVER_ADDRESS"],
            gcs=f"{HEAD}:{PORTS['gcs'].usual}",
            s3=self._env["AWS_ENDPOINT_URL"],
            credentials=self._credentials(),
            ray_token=self._token(),
            ray_token_file=self._env["RAY_AUTH_TOKEN_PATH"],
            jupyter=self._url(JUPYTER),
            prometheus=_within(PROMETHEUS),
            alertmanager=_within(ALERTMANAGER),
            grafana=_within(GRAFANA),
            queue=_within(QUEUE) if self._url(QUEUE) else "",
        )

    def advice(self, commands: Sequence[str], in_python: str) -> str:
        del in_python
        return f"on the host: {'; '.join(f'labctl {command} --lab {self.lab}' for command in commands)}"

    def missing(self, feature: Feature) -> str:
        del feature
        return f"only the host can tell: labctl fault-inject --list --lab {self.lab} there"

    # The host's business

    logs = _host_only("read the log of {}", "logs {}")
    folder = _host_only("keep notes of the lab", "status")
    kill = _host_only("kill {}", "fault-inject {}")
    pause = _host_only("pause {}", "fault-inject {} --fault pause")
    resume = _host_only("resume {}", "restart {}")
    start = _host_only("start {}", "restart {}")
    crash = _host_only("crash {}", "fault-inject {} --fault crash-restart")
    disconnect = _host_only("cut {} off the network", "fault-inject {} --fault partition")
    reconnect = _host_only("connect {} to the network", "restart {}")
    impair = _host_only("slow down the network of {}", "fault-inject {} --fault slow-network")
    unimpair = _host_only("speed up the network of {}", "restart {}")
    execute = _host_only("run a command in {}", "status")

    def stop(self, service: str, *, timeout: float = 10.0) -> NoReturn:
        """Refuse: only the host can stop a service. Raises UnsupportedError."""
        del timeout
        raise UnsupportedError(
            f"cannot stop {service} from inside lab {self.lab}",
            f"on the host: labctl restart {service} --lab {self.lab}; to break it on purpose: "
            f"labctl fault-inject {service} --fault stop --lab {self.lab}",
        )

    def set_training_key(self, enabled: bool) -> None:
        """Refuse: only the host may change rights in the store. Raises UnsupportedError."""
        what = "let the store accept the training key" if enabled else "take the training key's rights"
        raise self._host(what, "fault-inject minio --fault s3-credentials-revoked")

    # Inside

    def _host(self, what: str, command: str) -> UnsupportedError:
        return UnsupportedError(f"cannot {what} from inside lab {self.lab}", self.advice([command], ""))

    def _url(self, service: str) -> str:
        """The address of the service for a browser on the host."""
        return self._env.get(f"RAYLAB_{row(service).url_port.upper()}_URL", "")

    def _expected(self) -> int:
        """Workers that the lab was started with; 0 where the environment does not say."""
        said = self._env.get("RAYLAB_WORKERS", "")
        return int(said) if said.isdecimal() else 0

    def _nodes(self) -> Sequence[Node]:
        return self._world.nodes(self._env["RAY_API_SERVER_ADDRESS"], self._token())

    def _store(self) -> ServiceStatus:
        base = self._env["AWS_ENDPOINT_URL"].rstrip("/")
        if self._serves(STORE, base):
            return ServiceStatus(STORE, State.HEALTHY)
        return ServiceStatus(STORE, State.EXITED, f"{base} does not answer")

    def _optional(self) -> list[ServiceStatus]:
        return [
            ServiceStatus(service.name, State.HEALTHY)
            for service in SERVICES
            if service.optional
            and service.ports[0].published
            and self._serves(service.name, _within(service.name))
        ]

    def _queue(self) -> list[ServiceStatus]:
        """The controller of the queues; none in a lab that an earlier labctl started."""
        if not self._url(QUEUE):
            return []
        if self._serves(QUEUE, _within(QUEUE)):
            return [ServiceStatus(QUEUE, State.HEALTHY)]
        return [ServiceStatus(QUEUE, State.EXITED, f"{_within(QUEUE)} does not answer")]

    def _serves(self, service: str, base: str) -> bool:
        """True when it says so itself, or its stand-in does."""
        paths = (row(service).health, row(service).stand_in_health)
        replies = (self._world.http(base + path, {}) for path in paths if path)
        return any(reply is not None and reply.status == 200 for reply in replies)

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
