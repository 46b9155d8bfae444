"""Whatever the controller of the queues is sent: an answer, and nothing changes where it is a refusal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.daemons.queue.routes import Routes
from lab.ext.health.board import Board
from tests.unit.daemons.queue.test_routes import JOB, Site
from tests.unit.daemons.queue.world import ControllerLab, priority, queue
from tests.unit.fuzz import words

TEXTS = st.text(max_size=6) | st.sampled_from(
    ["\0", "a\n", "\x1b[2J", "../x", "ns/a", "*", "mine", "x" * 3000]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
FIELDS = words(
    """name queue command package runtime_env metadata num_cpus num_gpus workers priority_class max_time owner
    recipe ranks preemption_grace enforce retry files namespace dry_run objects reason message node boot
    interval devices checks address skipped device check state"""
)
DOCUMENTS = st.one_of(
    st.dictionaries(FIELDS, VALUES, max_size=4),
    st.dictionaries(FIELDS, VALUES, max_size=2).map(lambda more: {**JOB, **more}),
    st.dictionaries(TEXTS, TEXTS, max_size=3).map(
        lambda variables: {**JOB, "runtime_env": {"env_vars": variables}}
    ),
    VALUES,
).map(lambda document: json.dumps(document).encode())
BODIES = DOCUMENTS | st.binary(max_size=40) | st.sampled_from([b"", b"{", b"[" * 9000, b"\xff", b"1e999"])
PATHS = st.one_of(
    st.text(max_size=12).map("/".__add__),
    st.just("/jobs\n"),
    words(
        """/healthz /workloads /queues /objects /events /metrics /packages/x /jobs /dry-run /apply
        /delete /workloads/ns/mine /workloads/ns/mine/why /workloads/ns/mine/cancel
        /health /health/report /health/symptom //jobs /jobs/ /%00"""
    ),
)
QUERIES = st.sampled_from(["", "limit=-1", "limit=\0", "since=9999", "status=%00", "queue=a&queue=b"]) | TEXTS
METHODS = st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "X\n"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    world = ControllerLab(tmp_path_factory.mktemp("hostile"))
    world.apply(*queue("a", 2), priority("high", 10))
    site = Site(world)
    site.app = Routes(world.controller, None, Board(world.controller.lock, world.clock).pages())
    yield site
    world.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(method=METHODS, path=PATHS, query=QUERIES, body=BODIES, length=st.none() | TEXTS)
def test_every_request_gets_an_answer_and_a_refusal_changes_nothing(
    site: Site, method: str, path: str, query: str, body: bytes, length: str | None
) -> None:
    before = site.state()
    environ: dict[str, Any] = {} if length is None else {"CONTENT_LENGTH": length}
    status, answer = site.ask(method, f"{path}?{query}", body, **environ)
    assert status < 500, answer
    assert status < 400 or site.state() == before
