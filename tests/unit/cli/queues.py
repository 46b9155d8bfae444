"""The queues' controller as it is, over a Ray in memory and without a socket, for the tests of labctl."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from urllib3 import PoolManager
from urllib3.exceptions import ProtocolError

from lab.cluster.api import Node
from lab.cluster.jobs import Job
from lab.cluster.queues import Queues
from lab.cluster.submission import Submission
from lab.daemons.queue.__main__ import make_app
from lab.daemons.queue.controller import Controller
from lab.daemons.queue.packages import Packages
from lab.daemons.queue.rayside import Cluster
from lab.daemons.queue.reconcile import Reconciler
from lab.daemons.queue.steering import Look
from lab.daemons.queue.store import StateStore
from lab.ext.health.board import Board
from lab.host.clock import Clock
from lab.host.loops import Loops
from lab.lab import Lab
from lab.topology import GpuAssignment, GpuPlan, Vendor
from tests.unit.cli.fakes import FollowedJobs, Labctl
from tests.unit.daemons.queue.world import SMALL, AtOnce
from tests.unit.fakes import job

TOKEN = "secret"
GPU = "nvidia.com/gpu"
SIMULATED = GpuPlan(Vendor.SIMULATED, tuple(GpuAssignment(f"ray-worker-{n}") for n in (0, 1)), "asked for")


class Jobs(FollowedJobs):
    """Jobs of which each attempt that is followed ends as `ends` says, the last one for all others."""

    def __init__(self) -> None:
        super().__init__()
        self.endings = ["SUCCEEDED"]
        self.hooks: list[Any] = []
        """Called one after the other, each when an attempt has printed its log."""

    def follow(self, submission_id: str, *more: Any, **named: Any) -> Iterator[str]:
        yield from super().follow(submission_id, *more, **named)
        if self.hooks:
            self.hooks.pop(0)(submission_id)
        elif not self.known[submission_id].final:
            self.end(submission_id, self.endings.pop(0) if len(self.endings) > 1 else self.endings[0])

    def end(self, submission_id: str, status: str = "SUCCEEDED") -> None:
        """Let a job end."""
        message = "Job finished" if status == "SUCCEEDED" else "it broke"
        self.known[submission_id] = job(submission_id, status, message=message)


class Ray(Cluster):
    """Ray as the controller sees it: the same jobs that labctl sees."""

    def __init__(self, jobs: Jobs, clock: Clock) -> None:
        self._shared, self._clock = jobs, clock
        self.orders: list[Submission] = []
        self.packages: list[bytes | None] = []
        self.end = jobs.end

    def ping(self) -> None:
        pass

    def ping_store(self) -> None:
        pass

    def find(self, submission_id: str) -> Job | None:
        return self._shared.known.get(submission_id)

    def unfinished(self) -> tuple[Job, ...]:
        return tuple(job for job in self._shared.known.values() if not job.final)

    def submit(self, order: Submission, package: bytes | None = None) -> None:
        self.orders.append(order)
        self.packages.append(package)
        self._shared.known[order.submission_id] = job(
            order.submission_id, "RUNNING", metadata=dict(order.metadata), started_at=self._clock()
        )

    def stop(self, submission_id: str) -> None:
        if not self._shared.known[submission_id].final:
            self._shared.end(submission_id, "STOPPED")

    def nodes(self) -> tuple[Node, ...]:
        return SMALL

    def look(self, shut: Collection[str]) -> Look:
        return Look()

    def resize(self, node_id: str, cpus: float) -> None:
        pass

    def taken(self) -> Mapping[str, Mapping[str, float]]:
        return {}

    def checkpoint_since(self, submission_id: str, at: float) -> bool | None:
        return None


class Wsgi:
    """A pool of connections to the controller, which makes a step before it answers."""

    def __init__(self, world: QueueLab) -> None:
        self._world = world

    def request(self, method: str, url: str, *, body: bytes | None = None, **more: Any) -> SimpleNamespace:
        world = self._world
        if world.away:
            raise ProtocolError("it is away")
        world.asked.append(f"{method} {url.removeprefix('http://127.0.0.1:8266')}")
        world.labctl.runtime.clock.sleep(0.01)  # no two things happen at the same moment
        world.step()
        path, _, query = url.removeprefix("http://127.0.0.1:8266").partition("?")
        environ = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "HTTP_HOST": "127.0.0.1:8266",
            "CONTENT_LENGTH": str(len(body or b"")),
            "wsgi.input": io.BytesIO(body or b""),
            **{f"HTTP_{name.upper()}": value for name, value in more["headers"].items()},
        }
        head: list[Any] = []
        data = b"".join(world.app(environ, lambda *answer: head.extend(answer)))
        world.step()
        return SimpleNamespace(status=int(head[0].split()[0]), headers=dict(head[1]), data=data)


class QueueLab:
    """labctl on a lab with two simulated GPUs and a controller of queues."""

    def __init__(self, labctl: Labctl, folder: Path) -> None:
        self.labctl, self.jobs = labctl, Jobs()
        here = folder / "here"
        here.mkdir(parents=True)
        labctl._patch.chdir(here)  # jobs bring the current folder, which would be the checkout
        clock = labctl.runtime.clock
        self.ray = Ray(self.jobs, clock)
        store = StateStore(folder)
        store._database.execute("PRAGMA synchronous = OFF")  # nothing is killed here
        self.controller = Controller(store, Packages(folder), clock=clock)
        self.reconciler = Reconciler(self.controller, self.ray, AtOnce())
        self.health = Board(self.controller.lock, clock)
        self.app = make_app(self.controller, (self.health,), Loops(()), TOKEN)
        self.asked: list[str] = []
        """Method and path of each request."""
        self.away = False
        labctl.jobs = self.jobs
        self.queues = Queues("http://127.0.0.1:8266", TOKEN, pool=cast(PoolManager, Wsgi(self)))
        labctl._use(
            Lab(labctl.runtime, api=labctl.api, jobs=self.jobs, store=labctl.store, queues=self.queues)
        )
        labctl.lab.__dict__["gpu_plan"] = SIMULATED
        labctl.stub("waiting_jobs", {})

    def step(self) -> None:
        """Let the controller look and decide, until there is nothing more to do."""
        for _ in range(3):
            self.reconciler.step()

    def changes(self) -> list[str]:
        """The requests that may change something."""
        return [request for request in self.asked if not request.startswith("GET ")]
