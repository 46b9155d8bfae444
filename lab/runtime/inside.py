"""The lab as its own JupyterLab sees it: from a container, without Docker and without the host.

All it needs is in the environment of that container. It can look at the lab and use it, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lab.cluster.api import Node
from lab.errors import ClusterError, LabDownError, ServiceError, UnsupportedError, UsageError
from lab.host.secrets import key_from, read_secret
from lab.runtime import nodes as seen
from lab.runtime.base import LabView
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
    row,
    worker,
)
from lab.topology import (
    DEFAULT_LAB,
    Credentials,
    Endpoints,
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


class InsideView(LabView):
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

    def status(self) -> LabStatus:
        """State of every service. Prometheus and Grafana are left out when they do not answer."""
        notes: tuple[str, ...] = ("seen from inside the lab: Prometheus and Grafana only while they answer",)
        try:
            nodes: Sequence[Node] = self._nodes()
            why = ""
        except (ClusterError, ServiceError) as error:
            nodes, why = (), error.message
        store = self._look(STORE, self._env["AWS_ENDPOINT_URL"].rstrip("/"))
        queue = self._look(QUEUE, _within(QUEUE))
        statuses = [store, *self._optional(), queue, *seen.states(nodes, why)]
        if not why:  # a head that was restarted has forgotten its workers
            listed = seen.newest(nodes)
            statuses += [
                ServiceStatus(name, State.STARTING, "not in Ray's node list")
                for name in map(worker, range(self._expected()))
                if name not in listed
            ]
        statuses = [replace(status, url=self._url(status.service)) for status in statuses]
        statuses.append(ServiceStatus(JUPYTER, State.HEALTHY, "this process runs in it", self._url(JUPYTER)))
        up = not why
        plan = seen.plan(nodes, self._vendor)
        return LabStatus(self.lab, self.kind, up, tuple(statuses), plan, notes)

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
        return seen.settings(self.lab, nodes, self._vendor, self._expected())

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
            queue=_within(QUEUE),
        )

    def advice(self, commands: Sequence[str], in_python: str) -> str:
        del in_python
        return f"on the host: {'; '.join(f'labctl {command} --lab {self.lab}' for command in commands)}"

    def refusal(self, act: str, command: str) -> UnsupportedError:
        return UnsupportedError(f"cannot {act} from inside lab {self.lab}", self.advice([command], ""))

    def _url(self, service: str) -> str:
        """The address of the service for a browser on the host."""
        return self._env.get(f"RAYLAB_{row(service).url_port.upper()}_URL", "")

    def _expected(self) -> int:
        """Workers that the lab was started with; 0 where the environment does not say."""
        said = self._env.get("RAYLAB_WORKERS", "")
        return int(said) if said.isdecimal() else 0

    def _nodes(self) -> Sequence[Node]:
        return self._world.nodes(self._env["RAY_API_SERVER_ADDRESS"], self._token())

    def _look(self, service: str, base: str) -> ServiceStatus:
        if self._serves(service, base):
            return ServiceStatus(service, State.HEALTHY)
        return ServiceStatus(service, State.EXITED, f"{base} does not answer")

    def _optional(self) -> list[ServiceStatus]:
        return [
            ServiceStatus(service.name, State.HEALTHY)
            for service in SERVICES
            if service.optional
            and service.ports[0].published
            and self._serves(service.name, _within(service.name))
        ]

    def _serves(self, service: str, base: str) -> bool:
        """True when it says so itself, or its stand-in does."""
        paths = (row(service).health, row(service).stand_in_health)
        replies = (self._world.http(base + path, {}) for path in paths if path)
        return any(reply is not None and reply.status == 200 for reply in replies)

    @property
    def _vendor(self) -> Vendor:
        known = {vendor.value: vendor for vendor in (Vendor.NVIDIA, Vendor.AMD)}
        return known.get(self._env.get("RAYLAB_GPU", ""), Vendor.SIMULATED)

    def _token(self) -> str:
        try:
            return read_secret(Path(self._env["RAY_AUTH_TOKEN_PATH"]))
        except UsageError as error:
            raise ServiceError(f"Ray's token: {error.message}") from error

    def _credentials(self) -> Credentials:
        try:
            key = key_from(self._env)
        except UsageError as error:
            raise ServiceError(f"no key of the object store: {error.message}") from error
        if key is None:
            raise ServiceError("no key of the object store: AWS_SHARED_CREDENTIALS_FILE is not set")
        return key
