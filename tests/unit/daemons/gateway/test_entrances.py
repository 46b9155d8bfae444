"""Who comes through which page of the gateway, by which method: every page, everybody."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from lab.api.people import FaultOrder
from lab.cluster.allocation import Holding
from lab.daemons.gateway.access import Access
from lab.daemons.gateway.faults import Breaker
from lab.daemons.gateway.ray_api import RayJobs
from lab.daemons.gateway.routes import Routes
from lab.daemons.gateway.server import Site
from lab.daemons.gateway.tokens import Slowdown
from lab.people.registry import SERVER
from lab.runtime.active_faults import LEFT_DOWN, ActiveFault, ActiveFaults
from tests.unit.daemons.gateway.classes import Class
from tests.unit.daemons.gateway.test_faults import Killing

PEOPLE = ("ann", "ben", "eva", "tom")
"""Two students, an assistant and a teacher. All that is asked for is ben's, or the lab's."""

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
REFUSED = (401, 403, 404, 405)
ALL, READERS, OWNERS, STAFF, TEACHER = "ann ben eva tom", "ben eva tom", "ben tom", "eva tom", "tom"
SHA256, VERBS = "0" * 64, ("cancel", "deactivate", "activate")
JOB = {"queue": "ben/default", "command": ["true"], "workers": {"count": 1, "cpus": 1}}
RAYS = {"entrypoint": "true", "metadata": {"queue": "ben/default"}}

WHO = {
    "GET /person": ALL,
    "POST /people/ben/end-server": OWNERS,
    "GET /api/version": ALL,
    "GET /api/v0/nodes": ALL,
    **{f"GET /api/v0/{kind}": STAFF for kind in ("tasks", "actors", "placement_groups")},
    "GET /api/packages/gcs/b.zip": "",  # of each her own, and nobody has sent one
    "PUT /api/packages/gcs/b.zip": ALL,
    "GET /api/jobs/": ALL,
    "POST /api/jobs/": OWNERS,
    "GET /api/jobs/ben-x": ALL,
    "DELETE /api/jobs/ben-x": OWNERS,
    "POST /api/jobs/ben-x/stop": OWNERS,
    "GET /api/jobs/ben-x/logs": READERS,
    "POST /jobs": OWNERS,
    "POST /dry-run": OWNERS,
    f"GET /packages/{SHA256}": "",
    f"PUT /packages/{SHA256}": ALL,
    "GET /workloads": ALL,
    "GET /workloads/ben/ben-x": READERS,
    "GET /workloads/ben/ben-x/why": READERS,
    **{f"POST /workloads/ben/ben-x/{verb}": OWNERS for verb in VERBS},
    "POST /workloads/ben/ben-x/fault": OWNERS,
    "GET /workloads/ben/ben-x/fault": READERS,
    "POST /nodes/ray-worker-0/start": OWNERS,
    **{f"GET /{page}": ALL for page in ("events", "queues", "objects", "health")},
    **{f"POST /{page}": TEACHER for page in ("apply", "delete")},
    "POST /health/symptom": TEACHER,
}
"""Method and path -> who is not refused."""

BODIES: dict[str, Any] = {"POST /jobs": JOB, "POST /dry-run": JOB, "POST /api/jobs/": RAYS}
"""What is sent; nothing to the others."""


@pytest.fixture
def bens(school: Class, tmp_path: Path) -> Class:
    """The class with a job of ben's that runs, under a fault of the teacher's, and a JupyterLab of his."""

    def start(argv: Sequence[str]) -> Killing:
        return Killing()

    school.submit("ben", "x", 900)
    school.world.run(5)
    breaker = Breaker(lambda: (Holding("ben-x", "ray-worker-0", {"CPU": 1.0}, "rank 0"),), start, tmp_path)
    asyncio.run(breaker.kill("ben-x", lambda job: True, FaultOrder()))
    down = ActiveFault("stop", "ray-worker-0", "ben-x", 5.0, 0, 0.0, memo={LEFT_DOWN: True})
    ActiveFaults(tmp_path).keep(down)
    school.registry.grant(SERVER, ["ben"])
    school.queue.more = {"/health": {}, "/health/symptom": {}}
    access = Access(school.registry, school.queue, school.ray, breaker)
    school.routes = Routes(access, RayJobs(access))
    return school


@pytest.mark.parametrize("person", PEOPLE)
def test_who_comes_through_which_page(bens: Class, person: str) -> None:
    replies = {}
    for page in WHO:
        method, path = page.split()
        replies[page] = bens.ask(person, method, path, BODIES.get(page))
    came = {page: reply.status not in REFUSED for page, reply in replies.items()}
    assert came == {page: person in who.split() for page, who in WHO.items()}
    assert max(reply.status for reply in replies.values()) < 500


@pytest.mark.parametrize("person", PEOPLE)
def test_no_other_method_does_anything(bens: Class, person: str) -> None:
    before = len(bens.world.controller.records), bens.status("ben", "x")
    for path in {page.split()[1] for page in WHO}:
        for method in METHODS:
            if f"{method} {path}" not in WHO:
                assert bens.ask(person, method, path, b"{}").status == 405, (method, path)
    assert before == (len(bens.world.controller.records), bens.status("ben", "x"))


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}])
def test_nobody_comes_through_without_a_token_that_is_right(bens: Class, headers: dict[str, str]) -> None:
    async def pause(seconds: float) -> None:
        """Take no time."""

    site = Site(bens.registry, Slowdown(lambda _: None), lambda _: None, pause)
    site.open(Access(bens.registry, bens.queue, bens.ray))
    paths = {page.split()[1] for page in WHO} | {"/", "/api/jobs/ben-x/logs/tail", "/metrics"}

    async def ask(method: str, path: str) -> int:
        return (await site.serve(make_mocked_request(method, path, headers=headers))).status

    statuses = {asyncio.run(ask(method, path)) for path in paths for method in METHODS}
    assert statuses == ({403} if headers else {401})


def test_every_page_is_asked_for_here(bens: Class) -> None:
    for method, pattern, _ in bens.routes._routes:
        pages = (page.split() for page in WHO)
        assert any(verb == method and re.fullmatch(pattern, path) for verb, path in pages), (method, pattern)
