"""Client of Ray's HTTP API on the dashboard, with the token; the nodes of the cluster.

Plain HTTP is enough for all that labctl asks, so labctl itself needs no Ray installation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from lab.cluster import gateway as words
from lab.errors import ClusterError, HeadDownError, RefusedError
from lab.host import http
from lab.host.reading import parse_json

if TYPE_CHECKING:
    from urllib3 import PoolManager

TIMEOUT_SECONDS = 10.0
"""Deadline of one request. The dashboard answers in milliseconds unless the machine is overloaded."""

LIMIT = 10_000
"""Rows that one request may bring; Ray allows no more."""

STARTS = "raylab.io/starts"
"""Label of a head that was started again (raylab_recovery.revival): how often it was started in all."""

Row = Mapping[str, Any]
"""One entry of a list of Ray's."""

Filter = tuple[str, str, str]
"""A condition that Ray is to check: a row's key, `=` or `!=`, a value."""

T = TypeVar("T")


@contextmanager
def known_shape(subject: str) -> Iterator[None]:
    """Context in which an answer of Ray's is read: raises ClusterError when that cannot be done."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ClusterError(f"{subject} has an unknown shape ({error!r})") from error


@dataclass(frozen=True)
class Node:
    """One Ray node, alive or dead. A service that restarts becomes a new node with the same `service`."""

    node_id: str
    service: str
    """Ray's node name, which the lab sets to the service's name."""
    alive: bool
    head: bool
    resources: Mapping[str, float]
    """Total that the node offers: CPU and GPU in units, memory in bytes."""
    started_at: float | None
    """Seconds since the epoch."""
    ended_at: float | None
    """Seconds since the epoch at which the cluster declared it dead."""
    reason: str
    """Cause of its death, in Ray's words."""
    starts: int = 1
    """How often it was started by its keeper; more than once: Ray had ended there by itself."""


@dataclass(frozen=True)
class ApiReply:
    """An HTTP answer: its status and body."""

    status: int
    data: bytes

    def json(self) -> Any:
        """The body parsed as JSON. Raises ClusterError."""
        try:
            return parse_json(self.data)
        except ValueError as error:
            text = self.data[:80].decode(errors="replace")
            raise ClusterError(
                f"what answered is not JSON, so it is not Ray's dashboard: {text!r}",
                "another program may hold the dashboard's port: `labctl status`",
            ) from error


class RayApi:
    """One cluster's dashboard. Raises ClusterError when it does not answer or refuses the token.

    The gateway of a class stands in for it; what a person may not do there raises RefusedError.
    """

    def __init__(self, url: str, token: str, *, gateway: bool = False, attempts: bool = True) -> None:
        """`url` is the dashboard's, such as http://127.0.0.1:8265; `token` is Ray's authentication token.

        Of a `gateway` both are what a person of a class has; its jobs are Ray's own, the `attempts` of those
        in the queues, or else the latter, from their submission on.
        """
        self.url, self.gateway = url.rstrip("/"), gateway
        self._headers = {
            **http.bearer(token),
            **({http.ATTEMPTS_HEADER: "1"} if gateway and attempts else {}),
        }
        self._pool: PoolManager | None = None

    def request(
        self, method: str, path: str, *, body: object = None, timeout: float = TIMEOUT_SECONDS
    ) -> ApiReply:
        """One request. `body` is sent as it is when bytes, else as JSON. Of HTTP errors, 401/403 raise."""
        if self._pool is None:
            self._pool = http.make_pool()
        headers = dict(self._headers)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        try:
            reply = http.request(
                method, self.url + path, body=body, headers=headers, timeout=timeout, pool=self._pool
            )
        except http.NoAnswerError as error:
            if self.gateway:
                raise ClusterError(*words.silent(self.url, error)) from error
            if error.nobody:
                raise HeadDownError(
                    f"the head is down: Ray's dashboard at {self.url} takes no connection ({error})",
                    "`labctl status` says if it is being started again; `labctl up` repairs",
                ) from error
            raise ClusterError(
                f"Ray's dashboard at {self.url} does not answer ({error})",
                "look at `labctl status` and `labctl logs ray-head`",
            ) from error
        if http.REFUSED_HEADER in reply.headers:
            raise RefusedError(reply.data[:300].decode(errors="replace"))
        if reply.status in (401, 403) and self.gateway:
            raise ClusterError(*words.refused(self.url, reply.status))
        if reply.status in (401, 403):
            raise ClusterError(
                f"Ray's dashboard at {self.url} refused the token (HTTP {reply.status})",
                "somebody else started that lab, or its token was replaced: `labctl down`, then `labctl up`",
            )
        return ApiReply(reply.status, reply.data)

    def get(self, path: str, *, timeout: float = TIMEOUT_SECONDS) -> Any:
        """The JSON at `path`. Raises ClusterError, also for every HTTP error and for what is not JSON."""
        reply = self.request("GET", path, timeout=timeout)
        if reply.status != 200:
            text = reply.data[:200].decode(errors="replace")
            raise ClusterError(f"Ray's dashboard answered HTTP {reply.status} to {path}: {text}")
        return reply.json()

    def nodes(self) -> tuple[Node, ...]:
        """Every node the cluster knows, the dead ones included, oldest first."""
        return tuple(sorted(self.rows("nodes", _node), key=lambda node: node.started_at or 0.0))

    def rows(self, kind: str, make: Callable[[Row], T], *filters: Filter) -> tuple[T, ...]:
        """Rows of one of Ray's lists (`nodes`, `actors`, `tasks`, ...), each as `make` returns it.

        Raises ClusterError, also when the list, or a row for `make`, has an unknown shape.
        """
        query = "".join(
            f"&filter_keys={key}&filter_predicates={quote(predicate)}&filter_values={value}"
            for key, predicate, value in filters
        )
        answer = self.get(f"/api/v0/{kind}?detail=1&limit={LIMIT}{query}")
        with known_shape(f"Ray's list of {kind.replace('_', ' ')}"):
            return tuple(make(row) for row in answer["data"]["result"]["result"])

    def alive(self, service: str) -> Node | None:
        """The living node of a service, or None. Of two the newer: Ray learns late that the older is gone."""
        return next((n for n in reversed(self.nodes()) if n.alive and n.service == service), None)


def job_path(submission_id: str) -> str:
    """The page of a job."""
    return f"/api/jobs/{quote(submission_id, safe='')}"


def last_line(data: bytes) -> str:
    """The last line of an answer: the reason, below a traceback of Ray's."""
    lines = [line for line in data.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no reason given"


def _node(row: Row) -> Node:
    return Node(
        node_id=str(row["node_id"]),
        service=str(row.get("node_name") or row["node_id"]),
        alive=row["state"] == "ALIVE",
        head=bool(row.get("is_head_node")),
        resources={
            k: float(v) for k, v in (row.get("resources_total") or {}).items() if not k.startswith("node:")
        },
        started_at=_seconds(row.get("start_time_ms")),
        ended_at=_seconds(row.get("end_time_ms")),
        reason=str(row.get("state_message") or ""),
        starts=int((row.get("labels") or {}).get(STARTS) or 1),
    )


def _seconds(milliseconds: float | None) -> float | None:
    return milliseconds / 1000 if milliseconds else None


def infeasible(demand: Mapping[str, float], nodes: tuple[Node, ...]) -> str | None:
    """The reason for which no living node could ever meet `demand` (resource -> amount); None when one could.

    A demand has to fit on one node; what other jobs hold at the moment plays no part.
    """
    wanted = {k: v for k, v in demand.items() if v > 0}
    living = [n for n in nodes if n.alive]
    if not wanted or any(all(n.resources.get(k, 0.0) >= v for k, v in wanted.items()) for n in living):
        return None
    for resource, amount in wanted.items():
        most = max((n.resources.get(resource, 0.0) for n in living), default=0.0)
        if most < amount:
            return f"no node has {amount:g} {resource}; the largest has {most:g}"
    offers = dict.fromkeys(
        " and ".join(f"{n.resources[k]:g} {k}" for k in wanted if n.resources.get(k)) for n in living
    )
    asked = " and ".join(f"{v:g} {k}" for k, v in wanted.items())
    return f"no single node has {asked}; they offer {', or '.join(filter(None, offers))}"


def places(demand: Mapping[str, float], nodes: tuple[Node, ...], enough: int) -> int:
    """Number of workers, each asking for `demand`, that the living nodes could hold if they were free.

    Counting stops at `enough`, so that a demand of nothing has an answer.
    """
    count = 0
    for node in nodes:
        if node.alive and infeasible(demand, (node,)) is None:
            fits = [int(node.resources.get(k, 0.0) // v) for k, v in demand.items() if v > 0]
            count += min(fits) if fits else enough
    return min(count, enough)
