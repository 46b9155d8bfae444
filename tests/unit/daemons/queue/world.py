"""A world for the controller: a Ray of its own, a clock that only tests move, and a crash at any point."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kueue.model import FlavorResource
from lab.api.base import plain
from lab.api.health import AgentReport, Device, Result
from lab.cluster.api import Node
from lab.cluster.jobs import Job
from lab.cluster.queues import WORKLOAD
from lab.cluster.submission import Submission
from lab.daemons.queue.controller import Controller
from lab.daemons.queue.facade import QueueFacade
from lab.daemons.queue.model import DONE, Record
from lab.daemons.queue.packages import Packages
from lab.daemons.queue.rayside import Cluster
from lab.daemons.queue.reconcile import Reconciler
from lab.daemons.queue.steering import Look
from lab.daemons.queue.store import Batch, Loaded, StateStore
from lab.daemons.queue.workers import Task, Threads
from lab.errors import ClusterError, StoreError, UsageError
from lab.ext.health.board import Board

GPU = "nvidia.com/gpu"
BOOT_SECONDS, CHECKPOINT_SECONDS, LATE_SECONDS, BREAK_SECONDS = 1.0, 3.0, 4.0, 4.0


class Crash(BaseException):
    """The controller's process is gone."""


class Points:
    """Points at which the controller may be killed: it is at the one with the number `at`, from 0."""

    remains: Callable[[], object]
    """Snapshot of all that outlives the controller, and of who waits for its answer."""

    def __init__(self, at: int | None = None) -> None:
        self.at, self.count, self.where = at, 0, ""

    def hit(self, name: str, leaves: object = None) -> None:
        """Pass a point; `leaves` is what one that is killed there adds to what remains."""
        self.count += 1
        if self.count - 1 == self.at:
            self.where = name
            raise Crash(name)


class Watched(Points):
    """All points, at none of which it is killed."""

    def __init__(self) -> None:
        super().__init__()
        self.distinct: list[int] = []
        """Numbers of the points at which something else remains than at the one before."""
        self._before: object = ()

    def hit(self, name: str, leaves: object = None) -> None:
        if (remains := (self.remains(), leaves)) != self._before:
            self._before = remains
            self.distinct.append(self.count)
        super().hit(name, leaves)


class Time:
    """Seconds since the epoch that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        raise AssertionError("the controller's own threads wait, not its code")


@dataclass
class RayJob:
    """A job in the Ray of the tests: it boots, works for a while, and ends."""

    order: Submission
    workload: str
    created: float
    left: float
    fails: bool = False
    breaks_after: float | None = None
    """Seconds of work after which it fails."""
    code: int | None = None
    """Exit code with which it fails."""
    whole_after: float = 0.0
    """Seconds of work after which it holds what it was granted."""
    stopped: float | None = None

    def status(self, now: float) -> str:
        if self.stopped is not None and self.stopped <= now:
            return "STOPPED"
        if now < self.created + BOOT_SECONDS:
            return "PENDING"
        if self.breaks_after is not None and now >= self.created + BOOT_SECONDS + self.breaks_after:
            return "FAILED"
        if now < self.created + BOOT_SECONDS + self.left:
            return "RUNNING"
        return "FAILED" if self.fails else "SUCCEEDED"

    def saved(self, now: float) -> float:
        """Seconds of work that are in checkpoints."""
        worked = max(
            0.0, min(now if self.stopped is None else self.stopped, now) - self.created - BOOT_SECONDS
        )
        return min(self.left, worked // CHECKPOINT_SECONDS * CHECKPOINT_SECONDS)

    @property
    def gpus(self) -> int:
        variables = self.order.runtime_env["env_vars"]
        return int(variables["GPUS"]) * int(variables.get("RAYLAB_WORKERS_GRANTED", 1))


def node(service: str, gpus: float = 1.0) -> Node:
    """A living node of 8 CPUs."""
    has = {"CPU": 8.0, "GPU": gpus, "memory": 2.0**40}
    return Node(f"{service}-id", service, True, False, has, None, None, "")


SMALL = tuple(node(f"ray-worker-{number}") for number in (0, 1))
"""The nodes of the usual lab."""


class FakeRay(Cluster):
    """Ray and the store, which outlive every controller."""

    def __init__(self, clock: Time) -> None:
        self.clock, self.points = clock, Points()
        self.jobs: dict[str, RayJob] = {}
        self.forgotten: list[RayJob] = []
        self.on_their_way: list[tuple[float, Submission]] = []
        self.progress: dict[str, float] = {}
        self.submitted: list[str] = []
        self.away = self.store_away = False
        self.more_gpus: dict[str, float] = {}
        self.places: dict[str, str] = {}
        """Submission id -> service on which it runs; else ray-worker-0."""
        self.waits = False
        self.cpus: dict[str, float] = {}
        """Node id -> CPUs that Ray gives out."""
        self.all_nodes = tuple(node(f"ray-worker-{number}", 8.0) for number in (0, 1))

    def _ask(self, name: str) -> None:
        self.points.hit(name)
        if self.away:
            raise ClusterError("Ray is away")
        for at, order in list(self.on_their_way):
            if at <= self.clock():
                self.on_their_way.remove((at, order))
                if order.submission_id not in self.jobs and not order.runtime_env.get("bad"):
                    self._create(order)

    def ping(self) -> None:
        self._ask("ping")

    def ping_store(self) -> None:
        self.points.hit("ping_store")
        if self.store_away:
            raise StoreError("the store is away")

    def find(self, submission_id: str) -> Job | None:
        self._ask("find")
        return self._job(submission_id) if submission_id in self.jobs else None

    def unfinished(self) -> tuple[Job, ...]:
        self._ask("unfinished")
        return tuple(job for job in map(self._job, self.jobs) if not job.final)

    def _job(self, name: str) -> Job:
        known = self.jobs[name]
        status = known.status(self.clock())
        code = known.code if status == "FAILED" else None
        return Job(name, status, "", f"it {status}", known.created, None, "", code, known.order.metadata)

    def submit(self, order: Submission, package: bytes | None = None) -> None:
        self._ask("submit")
        try:
            self.points.hit("submit, which arrives late", order)
        except Crash:
            self.on_their_way.append((self.clock() + LATE_SECONDS, order))
            raise
        if order.submission_id in self.jobs:
            raise UsageError(f"{order.submission_id} exists")
        if order.runtime_env.get("bad"):
            raise UsageError("Ray refused the job: bad runtime_env")
        self._create(order)
        self.points.hit("submitted")

    def _create(self, order: Submission) -> None:
        key = order.metadata[WORKLOAD]
        variables = order.runtime_env["env_vars"]
        number = int(order.metadata["raylab_attempt"])
        done = self.progress.get(key, 0.0) if number > 1 else 0.0
        breaks = BREAK_SECONDS if number <= int(variables.get("BREAKS", 0)) else None
        made = self.jobs[order.submission_id] = RayJob(
            *(order, key, self.clock(), float(variables["WORK"]) - done, "FAILS" in variables),
            breaks_after=breaks,
            code=int(variables["EXIT"]) if "EXIT" in variables else None,
            whole_after=float(variables.get("LATE", 0)) if number == 1 else 0.0,
        )
        if breaks is not None:
            self.progress[key] = done + made.saved(made.created + BOOT_SECONDS + breaks)
        self.submitted.append(order.submission_id)
        live = [process for process in self.living() if process.workload == key]
        assert len(live) == 1, f"{key} runs twice"

    def stop(self, submission_id: str) -> None:
        self._ask("stop")
        job = self.jobs.get(submission_id)
        if job is not None and job.status(self.clock()) in ("PENDING", "RUNNING"):
            self._keep(job)
            job.stopped = self.clock()
        self.points.hit("stopped")

    def _keep(self, job: RayJob) -> None:
        before = self.progress.get(job.workload, 0.0)
        self.progress[job.workload] = before + job.saved(self.clock())

    def lose_head(self) -> None:
        """Forget every job, as Ray does when its head is started anew."""
        for job in self.jobs.values():
            if job.status(self.clock()) in ("PENDING", "RUNNING"):
                self._keep(job)
                job.stopped = self.clock()
        self.forgotten += self.jobs.values()
        self.jobs, self.on_their_way = {}, []

    def nodes(self) -> tuple[Node, ...]:
        self._ask("nodes")
        return self.all_nodes

    def look(self, shut: Collection[str]) -> Look:
        self._ask("look")
        places = {
            name: {self.places.get(name, "ray-worker-0"): float(job.gpus)}
            for name, job in self.jobs.items()
            if job.status(self.clock()) == "RUNNING"
        }
        return Look(places, self.waits)

    def resize(self, node_id: str, cpus: float) -> None:
        self._ask("resize")
        self.cpus[node_id] = cpus

    def taken(self) -> Mapping[str, Mapping[str, float]]:
        self._ask("taken")
        return {
            name: {"GPU": job.gpus + self.more_gpus.get(name, 0.0)}
            for name, job in self.jobs.items()
            if job.status(self.clock()) == "RUNNING"
            and self.clock() >= job.created + BOOT_SECONDS + job.whole_after
        }

    def checkpoint_since(self, submission_id: str, at: float) -> bool | None:
        self.points.hit("checkpoint_since")
        job = self.jobs.get(submission_id)
        if job is None or "PLAIN" in job.order.runtime_env["env_vars"]:
            return None
        return job.saved(self.clock()) > job.saved(at)

    def living(self) -> list[RayJob]:
        return [job for job in self.jobs.values() if job.status(self.clock()) in ("PENDING", "RUNNING")]


class CrashingStore(StateStore):
    """A file whose writer may be killed before and after each transaction."""

    SYNCHRONOUS = "OFF"
    """What is killed is the process, not the machine."""

    def __init__(self, folder: Path, points: Points) -> None:
        self.points = points
        super().__init__(folder)

    def load(self) -> Loaded:
        self.points.hit("load")
        return super().load()

    def commit(self, batch: Batch) -> None:
        self.points.hit("commit")
        super().commit(batch)
        self.points.hit("committed")


class CrashingPackages(Packages):
    """The same for packages."""

    points = Points()

    def put(self, sha256: str, data: bytes) -> None:
        self.points.hit("put")
        super().put(sha256, data)
        self.points.hit("have put")

    def get(self, sha256: str) -> bytes:
        self.points.hit("get")
        return super().get(sha256)


class AtOnce(Threads):
    """Workers that run a task while it is started."""

    def start(self, key: str, task: Task) -> bool:
        task()
        return True

    def busy(self, key: str) -> bool:
        return False


class ControllerLab:
    """All of it, with a controller that is started again whenever it is killed."""

    def __init__(self, folder: Path, points: Points | None = None, *, queued_only: bool = False) -> None:
        self.folder, self.points, self.queued_only = folder, points or Points(), queued_only
        self.clock = Time()
        self.ray = FakeRay(self.clock)
        self.ray.points = self.points
        self.crashes = self.actions = 0
        self.log: list[str] = []
        self.ill: list[tuple[str, str, str]] = []
        """Service, device and state of what is not healthy, which outlives the controller."""
        self._store: CrashingStore | None = None
        self.points.remains = self._remains
        self.do(lambda: None)

    def _remains(self) -> object:
        ray = {name: value for name, value in vars(self.ray).items() if name not in ("clock", "points")}
        written = self._store._database.total_changes if self._store is not None else None
        files = sorted(path.name for path in self.folder.rglob("*"))
        return self.actions, self.clock(), repr(ray), written, files

    # A process

    def start(self) -> None:
        """Begin a process with what the files say."""
        self.close()
        self._store = CrashingStore(self.folder, self.points)
        packages = CrashingPackages(self.folder, self.clock)
        packages.points = self.points
        self.controller = Controller(self._store, packages, clock=self.clock, queued_only=self.queued_only)
        self.health = Board(self.controller.lock, self.clock)
        for illness in self.ill:
            self._report(*illness)
        self.facade = QueueFacade(self.controller)
        self.reconciler = Reconciler(
            *(self.controller, self.ray, AtOnce()),
            states=self.health.devices,
            say=self.log.append,
        )

    def close(self) -> None:
        """End the process."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def do(self, action: Callable[[], Any]) -> Any:
        """Do something that may be repeated, again after each crash."""
        self.actions += 1
        while True:
            try:
                if self._store is None:
                    self.start()
                return action()
            except Crash:
                self.crashes += 1
                self.close()

    def step(self, seconds: float = 1.0) -> None:
        """Let time pass, and the controller make a step."""
        self.clock.now += seconds
        self.do(self._step)
        self.check()

    def _step(self) -> float:
        return self.reconciler.step()

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.step()

    def settle(self, most: int = 200) -> None:
        """Step until every job has ended."""
        for _ in range(most):
            if all(record.phase == DONE for record in self.controller.records.values()):
                return
            self.step()
        raise AssertionError({record.key: record.phase for record in self.controller.records.values()})

    # Health

    def check_says(self, service: str, device: str, state: str) -> None:
        """Let a check of a device say this."""
        self.ill = [illness for illness in self.ill if illness[:2] != (service, device)]
        self.ill += [(service, device, state)] if state != "PASS" else []
        self.do(lambda: self._report(service, device, state))

    def _report(self, service: str, device: str, state: str) -> None:
        ill = Device(device, "", (Result("ecc", state),))
        self.health.report(AgentReport(service, "", "", (ill,)))

    # People

    def apply(self, *objects: dict[str, Any]) -> dict[str, Any]:
        text = "\n---\n".join(map(json.dumps, objects))  # YAML too, and written in no time
        body = {"files": [{"name": "a.yaml", "text": text}], "namespace": "ns"}
        answer: dict[str, Any] = plain(self.do(lambda: self.facade.apply(json.dumps(body).encode())))
        return answer

    def submit(
        self, name: str, /, queue: str = "a", *, work: float = 5.0, gpus: int = 1, **fields: Any
    ) -> str:
        """Submit a job, unless it is there: as a person does who got no answer. Returns its key."""
        variables = {"GPUS": str(gpus), "WORK": str(work), **fields.pop("env", {})}
        workers = {"count": fields.pop("count", 1), "gpus": gpus, "min_count": fields.pop("least", None)}
        body = {
            "queue": queue,
            "command": ["python", "train.py", "--workers", str(workers["count"])],
            "metadata": {"job_name": name},
            "runtime_env": {"env_vars": variables, **fields.pop("runtime_env", {})},
            "workers": workers,
            **fields,
        }

        def once() -> str:
            known = self.find(name)
            if known is not None:
                return known.key
            return self.facade.submit(json.dumps(body).encode()).workload

        key: str = self.do(once)
        return key

    def order(self, name: str, verb: str, *, done: Callable[[Record], bool], **fields: str) -> None:
        """Give an order about a job, unless it was taken before the controller was killed."""

        def once() -> None:
            record = self.job(name)
            if not done(record):
                self.facade.order(record.key, verb, json.dumps(fields).encode())

        self.do(once)

    def find(self, name: str) -> Record | None:
        records = [r for r in self.controller.records.values() if r.job.metadata["job_name"] == name]
        assert len(records) <= 1, f"{name} was taken in twice"
        return records[0] if records else None

    def job(self, name: str) -> Record:
        record = self.find(name)
        assert record is not None
        return record

    def events(self, name: str = "") -> list[tuple[str, str]]:
        """Event and reason, of one job or of all."""
        key = self.job(name).key if name else ""
        return [(event.change.event, event.change.reason) for event in self.controller.events(workload=key)]

    # What has to hold

    def check(self) -> None:
        """No quota is exceeded, neither in the engine nor by what really runs; memory is as the file."""
        if self.points.at is not None and not self.crashes:
            return  # so far it goes as without a crash, where this was asked
        engine = self.controller.engine
        running: dict[str, int] = {}
        for job in self.ray.living():
            if job.workload not in engine.items:  # somebody else's
                continue
            item = engine.items[job.workload]
            assert item.state == "Admitted", f"{job.workload} runs in Ray without quota"
            if item.unmanaged:
                continue
            running[item.cluster_queue] = running.get(item.cluster_queue, 0) + job.gpus
        for name, node in engine.tree.queues.items():
            for place in node.quotas:
                assert node.usage.get(place, 0) <= node.potential(place) or name in self.over
            held = node.usage.get(FlavorResource("h100", GPU), 0)
            assert running.get(name, 0) <= held
        assert self._store is not None
        rows = {record.key: record for record, _ in StateStore.load(self._store).workloads}
        assert rows == self.controller.records

    over: frozenset[str] = frozenset()
    """ClusterQueues whose quota was cut below what they use."""

    def check_end(self) -> None:
        """Every job ended, none was submitted twice, and none did more than its work."""
        assert not self.ray.living()
        assert len(self.ray.submitted) == len(set(self.ray.submitted))
        attempts = [
            attempt.submission_id
            for record in self.controller.records.values()
            for attempt in record.job.attempts
        ]
        assert len(attempts) == len(set(attempts))
        assert set(self.ray.submitted) <= set(attempts)
        for record in self.controller.records.values():
            assert record.phase == DONE
            assert all(attempt.ended for attempt in record.job.attempts)
            known = {**self.ray.jobs, **{j.order.submission_id: j for j in self.ray.forgotten}}
            ran = [known[a.submission_id] for a in record.job.attempts if a.submission_id in known]
            whole = [job for job in ran if job.status(self.clock()) == "SUCCEEDED"]
            assert len(whole) <= 1, f"{record.key} ran to its end twice"
            finished = self.controller.engine.items[record.key].reason
            assert (finished == "Succeeded") == bool(whole)


def queue(name: str, gpus: int, cohort: str = "", **spec: Any) -> list[dict[str, Any]]:
    """A ClusterQueue of GPUs with a LocalQueue of its name in namespace `ns`."""
    version = "kueue.x-k8s.io/v1beta2"
    flavors = [{"name": "h100", "resources": [{"name": GPU, "nominalQuota": gpus}]}]
    given = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": [GPU], "flavors": flavors}],
        **({"cohortName": cohort} if cohort else {}),
        **spec,
    }
    return [
        {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": "h100"}},
        {"apiVersion": version, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": given},
        {
            "apiVersion": version,
            "kind": "LocalQueue",
            "metadata": {"name": name, "namespace": "ns"},
            "spec": {"clusterQueue": name},
        },
    ]


def priority(name: str, value: int) -> dict[str, Any]:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def unflavored(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Objects without the flavor, which another queue has brought."""
    return [item for item in objects if item["kind"] != "ResourceFlavor"]


def short(record: Record) -> list[str]:
    """Ends of the attempts of a job."""
    return [attempt.ended for attempt in record.job.attempts]
