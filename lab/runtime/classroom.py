"""The lab of a class as a person of it has it: an address and a token, and nothing else of the lab.

The gateway at that address speaks Ray's Jobs API and that of the queues: the clients of both are used as they
are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from lab.api.light import restore
from lab.api.people import Bearer
from lab.cluster import gateway
from lab.cluster.api import TIMEOUT_SECONDS, Node, RayApi
from lab.errors import CertificateError, ClusterError, LabDownError, UnsupportedError, UsageError
from lab.host import http
from lab.host.reading import SMALL, parse_json, read_text
from lab.runtime import nodes as seen
from lab.runtime.base import LabView
from lab.services import GATEWAY, row
from lab.topology import Credentials, Endpoints, LabSpec, LabStatus, ServiceStatus, State, Vendor

ADDRESS, TOKEN, TOKEN_PATH = "RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
"""Variables of Ray's own tools."""

QUEUE = "default"
"""LocalQueue of a person's namespace, for jobs that name none: Kueue's rule."""

ACCELERATOR = "accelerator_type:"
"""Beginning of the resource by which Ray names the model of a real GPU."""


class ClassView(LabView):
    """The lab behind a gateway, with the rights of whoever bears the token."""

    kind = "class"
    queue = QUEUE

    def __init__(self, lab: str, environment: Mapping[str, str] = os.environ) -> None:
        """`environment` has the address and the token. Raises UsageError."""
        super().__init__(lab)
        self._address, self._token = _address(environment), _token(environment)

    @cached_property
    def person(self) -> str:
        return self._bearer().name

    def status(self) -> LabStatus:
        """The gateway, and the nodes that Ray lists. Raises LabDownError, ClusterError without a gateway."""
        bearer, why = self._bearer(), ""
        said = f"the token is that of {bearer.name} ({bearer.role})"
        nodes: Sequence[Node] = ()
        try:
            nodes = self._nodes()
        except ClusterError as error:
            why = error.message
        services = (
            ServiceStatus(GATEWAY, State.HEALTHY, said, self._address),
            *seen.states(nodes, why),
        )
        return LabStatus(self.lab, self.kind, True, services, seen.plan(nodes, _vendor(nodes)))

    def spec(self) -> LabSpec:
        """Settings of the lab as Ray's node list has them. Raises ClusterError, too."""
        self._bearer()
        nodes = self._nodes()
        return seen.settings(self.lab, nodes, _vendor(nodes))

    def endpoints(self) -> Endpoints:
        """The gateway in place of Ray and of the queues; no store. Raises ClusterError, too."""
        self._bearer()
        nothing = Credentials("", "")
        return Endpoints(
            self._address, "", "", nothing, self._token, queue=self._address, gateway=self._address
        )

    def advice(self, commands: Sequence[str], in_python: str) -> str:
        del in_python
        return f"your teacher can: {'; '.join(f'labctl {command}' for command in commands)}"

    def refusal(self, act: str, command: str) -> UnsupportedError:
        return UnsupportedError(f"cannot {act} through the gateway of a class", self.advice([command], ""))

    def _bearer(self) -> Bearer:
        """The person of the token. Raises LabDownError; ClusterError where she or the gateway is none."""
        status, data = self._get("/person", self._token)
        if status == 429 or status >= 500:
            raise LabDownError(*gateway.silent(self._address, f"HTTP {status}"))
        if status in (401, 403) and self._get(row(GATEWAY).health, "")[0] == 200:
            raise ClusterError(*gateway.refused(self._address, status))
        try:
            if status == 200:
                return restore(Bearer, parse_json(data))
        except ValueError:
            pass
        raise ClusterError(*gateway.absent(self._address, status))

    def _get(self, page: str, token: str) -> tuple[int, bytes]:
        try:
            url, headers = self._address + page, http.bearer(token)
            reply = http.request("GET", url, headers=headers, timeout=TIMEOUT_SECONDS)
        except http.NoAnswerError as error:
            if error.untrusted:
                raise CertificateError(*gateway.untrusted(self._address, error)) from error
            raise LabDownError(*gateway.silent(self._address, error)) from error
        return reply.status, reply.data

    def _nodes(self) -> Sequence[Node]:
        return RayApi(self._address, self._token, gateway=True).nodes()


def _address(environment: Mapping[str, str]) -> str:
    said = environment.get(ADDRESS, "").strip().rstrip("/")
    if not re.fullmatch(r"https?://[!-~]+", said):
        raise UsageError(
            f"--runtime class: {ADDRESS} is {repr(said)[:80] if said else 'not set'}",
            f"export {ADDRESS}=http://HOST:8280, as your teacher gave it to you",
        )
    return said


def _token(environment: Mapping[str, str]) -> str:
    token, path = environment.get(TOKEN, ""), environment.get(TOKEN_PATH, "")
    try:
        token = token or (read_text(Path(path), SMALL) if path else "")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", error)
        raise UsageError(f"--runtime class: {TOKEN_PATH}: cannot read {path}: {why}") from error
    if not re.fullmatch(r"[!-~]+", token.strip()):
        why = "is not a token" if token.strip() else f"is not set, and {TOKEN_PATH} names none"
        raise UsageError(
            f"--runtime class: {TOKEN} {why}", "it is what your teacher gave you beside the address"
        )
    return token.strip()


def _vendor(nodes: Sequence[Node]) -> Vendor:
    """The vendor of the GPUs; those without a model are simulated."""
    models = {name for node in nodes for name in node.resources if name.startswith(ACCELERATOR)}
    if any(name.startswith(f"{ACCELERATOR}AMD") for name in models):
        return Vendor.AMD
    return Vendor.NVIDIA if models else Vendor.SIMULATED
