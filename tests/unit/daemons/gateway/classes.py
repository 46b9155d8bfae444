"""A class in memory: the gateway before the queues' controller as it is, over a Ray that is none."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lab.daemons.gateway.access import Access, Asked
from lab.daemons.gateway.ray_api import RayJobs
from lab.daemons.gateway.routes import Routes
from lab.daemons.gateway.upstream import Body, Reply, TooLongError, UnansweredError, document
from lab.people.policy import Role
from lab.people.registry import Newcomer, Registry
from tests.unit.daemons.queue.test_routes import Site
from tests.unit.daemons.queue.world import ControllerLab, queue

WORK = {"WORK": "3", "GPUS": "0"}
"""Variables by which the Ray of the tests knows how long a job works."""


class QueueSide:
    """The controller's pages, asked without a network."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.away = 0
        """Requests that are not answered."""
        self.more: dict[str, Any] = {}
        """Path -> document of a page that the controller alone does not have."""

    async def ask(self, method: str, path: str, body: Body | None = None, most: int = 0) -> Reply:
        if self.away:
            self.away -= 1
            raise UnansweredError("the queues are away")
        name, mark, query = path.partition("?")
        if name in self.more:
            return document(self.more[name])
        status, answer = self.site.ask(method, unquote(name) + mark + query, body and bytes(body))
        return document(answer, status)

    async def tail(self, path: str) -> AsyncIterator[str]:
        raise AssertionError(f"the controller has no log at {path}")
        yield ""


class RaySide:
    """The pages of Ray's dashboard over the jobs of the world's Ray."""

    def __init__(self, world: ControllerLab) -> None:
        self.world = world
        self.asked: list[tuple[str, str]] = []
        self.more: dict[str, dict[str, Any]] = {}
        """Jobs that did not come through the queues."""
        self.away = 0
        """Log streams that break before they give anything."""
        self.breaks = 0
        """Log streams that end in their first line."""
        self.pieces = 0
        """Letters by which each of those goes further than the one before; 0 for the whole line."""
        self.no_logs = ""
        """Error that every request for a log is answered with, if not empty."""
        self.longest = 0
        """Bytes of the longest log that is answered as a whole; 0 for no limit."""
        self.lists: dict[str, Any] = {}
        """Path -> document of one of Ray's lists."""
        self.ill = False
        """True while every page is answered with 500."""

    async def ask(self, method: str, path: str, body: Body | None = None, most: int = 0) -> Reply:
        self.asked.append((method, path))
        if self.ill:
            return Reply(500, b"ill", "text/plain")
        if path == "/api/jobs/":
            return document([self._job(name) for name in (*self.world.ray.jobs, *self.more)])
        if log := LOG.fullmatch(path):
            if self.no_logs:
                return Reply(500, self.no_logs.encode(), "text/plain")
            text = f"log of {log[1]}\n".encode() if log[2] == "-1" else b"caf\xe9\n"
            if self.longest and len(text) > self.longest:
                raise TooLongError("too long", "", text[: self.longest])
            return Reply(200, text, "text/plain")
        name, _, page = path.removeprefix("/api/jobs/").partition("/")
        if not path.startswith("/api/jobs/"):
            return document(self.lists.get(path.partition("?")[0], {"path": path}))
        if name not in self.world.ray.jobs and name not in self.more:
            return Reply(404, b"no such job", "text/plain")
        if method == "GET" and not page:
            return document(self._job(name))
        return document({page or "deleted": True})

    async def tail(self, path: str) -> AsyncIterator[str]:
        if self.away:
            self.away -= 1
            raise UnansweredError("Ray is away")
        name = path.split("/")[3]
        line = f"log of {name}\n"
        if self.breaks:
            self.breaks -= 1
            yield line[: self.pieces * (3 - self.breaks)] if self.pieces else line
            return
        yield line
        if name in self.world.ray.jobs:
            while self._job(name)["status"] in ("PENDING", "RUNNING"):
                self.world.step()
            yield f"end of {name}\n"

    def _job(self, name: str) -> dict[str, Any]:
        if name in self.more:
            return self.more[name]
        job = self.world.ray.jobs[name]
        return {
            "type": "SUBMISSION",
            "job_id": "02000000",
            "submission_id": name,
            "status": job.status(self.world.clock()),
            "entrypoint": " ".join(job.order.command),
            "message": "as Ray says it",
            "metadata": dict(job.order.metadata),
            "runtime_env": dict(job.order.runtime_env),
            "driver_exit_code": None,
            "driver_node_id": "node-1",
        }


LOG = re.compile(r"/api/v0/logs/file\?node_id=node-1&filename=job-driver-(.*)\.log&lines=(-?\d+)")


class Class:
    """ann and ben are students, eva assists, tom teaches; each has two CPUs' worth of queue."""

    def __init__(self, folder: Path) -> None:
        self.world = ControllerLab(folder / "queue")
        site = Site(self.world)
        shared = queue("class", 8)[:2]
        shared[1]["spec"]["resourceGroups"] = [
            {
                "coveredResources": ["cpu", "nvidia.com/gpu"],
                "flavors": [
                    {
                        "name": "h100",
                        "resources": [
                            {"name": "cpu", "nominalQuota": 2},
                            {"name": "nvidia.com/gpu", "nominalQuota": 2},
                        ],
                    }
                ],
            }
        ]
        names = ("ann", "ben", "eva", "tom")
        self.world.apply(*shared, *map(local_queue, names))
        self.registry = Registry(folder)
        roles = (Role.STUDENT, Role.STUDENT, Role.ASSISTANT, Role.TEACHER)
        invitations = self.registry.invite(map(Newcomer, names, roles))
        self.registry.add([one.person for one in invitations])
        self.ray = RaySide(self.world)
        self.queue = QueueSide(site)
        access = Access(self.registry, self.queue, self.ray)
        self.jobs = RayJobs(access, self._pause)
        self.routes = Routes(access, self.jobs)

    async def _pause(self, seconds: float) -> None:
        self.world.step(seconds)

    def asked(self, person: str, method: str, path: str, body: Any = None) -> Asked:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        path, _, query = path.partition("?")
        return Asked(self.registry.get(person), method, path, query, data)

    def ask(self, person: str, method: str, path: str, body: Any = None) -> Reply:
        """One request of a person."""
        return asyncio.run(self.routes.answer(self.asked(person, method, path, body)))

    def ok(self, person: str, method: str, path: str, body: Any = None) -> Any:
        """The document of an answer that is no refusal."""
        reply = self.ask(person, method, path, body)
        assert reply.status < 300, reply.text
        return reply.json() if reply.data else None

    def submit(self, person: str, name: str = "", work: float = 9, **more: Any) -> str:
        """Submit as `ray job submit` does; returns the id."""
        variables = {**WORK, "WORK": str(work), **more.pop("env", {})}
        body = {
            "entrypoint": "python train.py --fast",
            "submission_id": name or None,
            "runtime_env": {"env_vars": variables},
            "metadata": {"job_name": name or "nameless"},
            **more,
        }
        answer = self.ok(person, "POST", "/api/jobs/", body)
        assert answer["job_id"] == answer["submission_id"]
        return str(answer["submission_id"])

    def status(self, person: str, name: str) -> str:
        return str(self.ok(person, "GET", f"/api/jobs/{name}")["status"])

    def follow(self, person: str, name: str) -> list[str]:
        """All that the log stream of a job gives, until it ends."""

        async def read() -> list[str]:
            asked = self.asked(person, "GET", f"/api/jobs/{name}/logs/tail")
            return [text async for text in self.jobs.tail(asked, name)]

        return asyncio.run(read())


def local_queue(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "default", "namespace": namespace},
        "spec": {"clusterQueue": "class"},
    }
