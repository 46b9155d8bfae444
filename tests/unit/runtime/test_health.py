"""The questions by which a running service is found to serve."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lab.cluster.api import Node
from lab.errors import ClusterError
from lab.host.http import Reply
from lab.host.secrets import Secrets
from lab.runtime.health import Seen, View, World
from lab.services import HEAD, JUPYTER, METRICS, PROMETHEUS, REDIS, STORE, worker
from lab.topology import Credentials, State

W0, W1 = worker(0), worker(1)
PORTS = {"dashboard": 1, "s3": 4, "jupyter": 5, "prometheus": 6, "metrics": 7}
KEY = Credentials("the-key", "the-secret")
SECRETS = Secrets(KEY, "the-ray-token", "the-jupyter-token", KEY, "the-password", "the-metrics-token")
RUNS = Seen(State.RUNNING, since=100.0)


def view(*, stand_in: bool = True, secrets: Secrets | None = SECRETS, **world: Any) -> View:
    return View(PORTS, stand_in, secrets, World(**world))


def node(service: str, started_at: float | None, *, alive: bool = True) -> Node:
    return Node("0123456789", service, alive, False, {}, started_at, None, "")


@pytest.mark.parametrize(
    ("service", "stand_in", "url"),
    [
        (STORE, False, "http://127.0.0.1:4/minio/health/live"),
        (STORE, True, "http://127.0.0.1:4/raylab/health"),
        (PROMETHEUS, True, "http://127.0.0.1:6/-/ready"),
        (METRICS, True, "http://127.0.0.1:7/healthz"),
        (JUPYTER, True, "http://127.0.0.1:5/api/status"),
    ],
)
@pytest.mark.parametrize(
    ("answer", "state", "detail"),
    [
        (200, State.HEALTHY, ""),
        (None, State.RUNNING, "does not answer"),
        (403, State.RUNNING, "answers HTTP 403"),
    ],
)
def test_a_service_is_healthy_when_it_answers_its_users(
    service: str, stand_in: bool, url: str, answer: int | None, state: State, detail: str
) -> None:
    asked: list[tuple[str, Mapping[str, str]]] = []

    def http(url: str, headers: Mapping[str, str]) -> Reply | None:
        asked.append((url, headers))
        return None if answer is None else Reply(answer, {}, b"")

    status = view(stand_in=stand_in, http=http).status(service, RUNS, ((), ""))

    assert status.state is state
    assert detail in status.detail
    assert asked == [(url, {"Authorization": "token the-jupyter-token"} if service == JUPYTER else {})]


@pytest.mark.parametrize(
    ("nodes", "healthy"),
    [
        ([], False),
        ([node(W0, 100.5)], True),
        ([node(W0, 99.4)], False),
        ([node(W0, 90.0)], False),
        ([node(W0, 90.0), node(W0, 101.0)], True),
        ([node(W0, 101.0, alive=False)], False),
        ([node(W1, 101.0)], False),
        ([node(W0, None)], False),
    ],
)
def test_a_node_is_healthy_when_it_has_joined_since_its_process_started(
    nodes: Sequence[Node], healthy: bool
) -> None:
    status = view().status(W0, RUNS, (nodes, ""))
    assert (status.state is State.HEALTHY) is healthy
    assert status.detail == ("node 01234567 is alive in Ray" if healthy else "its node is not alive in Ray")


@pytest.mark.parametrize(("kept", "said"), [(True, "its jobs go on"), (False, "its jobs were lost")])
def test_a_head_that_had_died_says_so_and_what_has_become_of_its_jobs(kept: bool, said: str) -> None:
    again = replace(node(HEAD, 101.0), starts=3)
    status = replace(view(), gcs_ft=kept).status(HEAD, RUNS, ([again], ""))
    assert status.state is State.HEALTHY
    assert "it had died and was started again (3 starts)" in status.detail
    assert said in status.detail
    assert view().status(HEAD, RUNS, ([node(HEAD, 101.0)], "")).detail == "node 01234567 is alive in Ray"


def test_the_cluster_is_asked_only_when_there_is_a_head_to_ask() -> None:
    def nodes(url: str, token: str) -> Sequence[Node]:
        assert (url, token) == ("http://127.0.0.1:1", "the-ray-token")
        raise ClusterError("it does not answer")

    asked = view(nodes=nodes)
    assert asked.cluster(RUNS) == ((), "it does not answer")
    for head in (None, Seen(State.PAUSED), Seen(State.EXITED)):
        assert asked.cluster(head) == ((), "ray-head is not running")
    assert asked.status(W0, RUNS, asked.cluster(RUNS)).detail == "it does not answer"


def test_a_dashboard_that_takes_connections_and_stays_silent_is_not_asked_for_nodes() -> None:
    def nodes(url: str, token: str) -> Sequence[Node]:
        raise AssertionError

    silent = view(http=lambda url, headers: None, nodes=nodes)
    assert silent.cluster(RUNS, starting=True) == ((), "http://127.0.0.1:1/api/version does not answer")


def test_a_service_that_wants_a_secret_can_only_be_seen_to_run_without_it() -> None:
    blind = view(secrets=None, http=lambda url, headers: Reply(200, {}, b""))
    for service in (HEAD, W0, JUPYTER):
        status = blind.status(service, RUNS, blind.cluster(RUNS))
        assert (status.state, "secrets cannot be read" in status.detail) == (State.RUNNING, True)
    assert blind.status(STORE, RUNS, ((), "")).state is State.HEALTHY


@pytest.mark.parametrize(
    ("status", "page", "state", "detail"),
    [
        (503, {"detail": "queue-loop has completed no step for 75 s"}, State.RUNNING, "queue-loop has"),
        (200, {"detail": "a damaged file is kept as old.sqlite"}, State.HEALTHY, "a damaged file"),
        (200, {"detail": "x" * 10_000}, State.HEALTHY, "x" * 500),
        (503, {"detail": 7}, State.RUNNING, "answers HTTP 503"),
        (503, ["detail"], State.RUNNING, "answers HTTP 503"),
    ],
)
def test_a_daemon_says_of_itself_what_a_person_should_know(
    status: int, page: object, state: State, detail: str
) -> None:
    asked = view(http=lambda url, headers: Reply(status, {}, json.dumps(page).encode()))
    seen = asked.status(METRICS, RUNS, ((), ""))
    assert seen.state is state
    assert detail in seen.detail
    assert len(seen.detail) < 600


def test_a_service_without_http_is_as_its_own_check_says() -> None:
    assert view().status(REDIS, RUNS, ((), "")).state is State.HEALTHY
    status = view().status(REDIS, Seen(State.RUNNING, own_check="no pong"), ((), ""))
    assert (status.state, status.detail, status.url) == (State.RUNNING, "no pong", "")
