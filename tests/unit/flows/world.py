"""A world for the flows: a fake lab, a job that trains on it, time that passes only in `sleep`."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from typing import Any

from lab.errors import StoreError
from lab.flows.recovery import FaultRequest, Moment, Outcome, inject, inject_and_repeat
from lab.services import worker
from lab.topology import LEDGER_PREFIX, LabSpec, State
from tests.fakes.ledger import Streams
from tests.unit.fakes import FakeLab

JOB = "j1"
RUN = "run"
W0, W1 = worker(0), worker(1)


class Drill(FakeLab):
    """A lab of two workers with 2 CPUs each that is up, and everything the flow reads."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs.text = ""
        self.runtime.up(LabSpec(workers=2, cpus_per_worker=2))
        self.clock.sleep(5)
        self.begin = self.clock()
        self.host.journal.clear()
        self.moments: list[Moment] = []
        self._written = 0
        self._streams = Streams()

    def silence(self, on: bool) -> None:
        """Let neither Ray nor the store answer, or both again."""
        self.api.silence(on)
        self.store.failure = StoreError("cannot be reached") if on else None

    def node_id(self, service: str) -> str:
        nodes = self.host.labs["raylab"].node_list()
        return next((n.node_id for n in nodes if n.alive and n.service == service), "")

    def write(self, event: str, job: str = JOB, **fields: Any) -> None:
        """Append an event to the job's ledger, now."""
        self._written += 1
        entry = {"schema": "ledger/1", "event": event, "at": self.clock(), "job": job, "run": RUN, **fields}
        entry = self._streams.numbered(entry)
        key = f"{LEDGER_PREFIX}/{job}/x-{self._written:06d}.jsonl"
        self.store.buckets["ray"][key] = (json.dumps(entry).encode(), self.clock())

    def inject(
        self,
        target: str = W0,
        kind: str = "kill",
        *,
        wait: bool = True,
        control: bool = False,
        on_moment: Callable[[Moment], None] | None = None,
        **request: Any,
    ) -> Outcome:
        asked, follow = FaultRequest(target, kind, **request), on_moment or self.moments.append
        if control:
            return inject_and_repeat(self.lab, asked, follow, clock=self.clock)
        return inject(self.lab, asked, follow, wait=wait, clock=self.clock)

    def calls(self) -> list[tuple[str, float]]:
        """What was done to services, with the seconds since the world began."""
        done = ("kill", "stop", "pause", "resume", "start")
        return [(c.method, c.at - self.begin) for c in self.host.journal if c.method in done]

    def when(self, method: str) -> float:
        return next(at for name, at in self.calls() if name == method)

    def moment_keys(self) -> list[str]:
        return [moment.key for moment in self.moments]

    def healthy(self) -> bool:
        return self.runtime.status().healthy


@dataclasses.dataclass
class Training:
    """A job that saves a checkpoint every second, notices within two that a rank is gone, and goes on."""

    world: Drill
    epochs: int = 12
    ranks: int = 1
    cpus: float = 1.0
    on: tuple[str, ...] = (W0,)
    least: int = 0
    """Ranks that an elastic run needs at least; 0: it always needs `ranks`."""
    key: str | None = "epoch"
    start_after: float = 1.0
    resumes: bool = True
    takeover: float = 1.0
    """Seconds from a failure to the next attempt."""
    first: int = 1
    planned: int = 0
    """Epochs that the script names; 0: as many as the last one's number."""
    job: str = JOB
    max_failures: int = -1
    crashes: bool = False
    """Whether the script fails in the next epoch, although its nodes are well."""
    name: str = ""
    """Of the run; empty: one of its own for each job."""
    evaluates: bool = False
    """Whether each epoch is reported once more, before it is trained."""
    attempt: int = 0
    done: int = 0
    reports: int = 0
    nodes: dict[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.jobs.become("RUNNING", self.job)
        self.done = self.first - 1
        self.world.clock.after(self.start_after, self.begin)

    def begin(self) -> None:
        self.world.write(
            "run_started",
            self.job,
            run=self.run,
            num_workers=[self.least, self.ranks] if self.least else self.ranks,
            resources_per_worker={"CPU": self.cpus},
            config={"epochs": self.planned or self.epochs},
            max_failures=self.max_failures,
        )
        self.start_on(self.on)

    def start_on(self, services: tuple[str, ...]) -> None:
        self.attempt += 1
        self.nodes = {service: self.world.node_id(service) for service in services}
        size = min(self.ranks, len(services)) if self.least else self.ranks
        ranks = [services[rank % len(services)] for rank in range(size)]
        self.write("attempt_scheduled")
        workers = [
            {"rank": rank, "node_id": self.nodes[service], "service": service}
            for rank, service in enumerate(ranks)
        ]
        self.write("attempt_started", workers=workers)
        for rank in range(len(ranks)):
            self.write("rank_ready", rank=rank)
        if self.attempt > 1 and self.resumes:
            for rank in range(len(ranks)):
                self.write("get_checkpoint", rank=rank, uri=self.uri(self.done))
                self.write(
                    "checkpoint_loaded",
                    rank=rank,
                    uri=self.uri(self.done),
                    files=self.files(self.done),
                    tensors=self.tensors(self.done),
                )
        elif self.attempt > 1:
            self.done = self.first - 1
        for rank in range(len(ranks)):
            self.write("state_begun", rank=rank, **self.state(self.done), optimizer=0, gradients=True)
        self.reports = 0
        self.world.clock.after(1.0, self.epoch)

    def epoch(self) -> None:
        if self.world.jobs.get(self.job).final:
            return
        if self.crashes or not all(self.lives(service) for service in self.nodes):
            self.crashes = False
            self.write("failure_detected", decision="RETRY")
            self.write("attempt_ended")
            self.world.clock.after(self.takeover, self.again)
            return
        self.done += 1
        if self.evaluates:
            self.reports += 1
            for rank in range(self.ranks):
                self.write("report", rank=rank, metrics={"epoch": self.done}, report=self.reports)
        self.save()
        if self.done >= self.epochs:
            self.write("run_finished", error=None)
            self.world.clock.after(
                0.5, lambda: self.world.jobs.become("SUCCEEDED", self.job, at=self.world.clock())
            )
        else:
            self.world.clock.after(1.0, self.epoch)

    def save(self) -> None:
        metrics: dict[str, Any] = {self.key: self.done} if self.key else {"loss": 0.5}
        metrics["weights_sha256"] = hashlib.sha256(self.data(self.done)).hexdigest()
        uri = self.uri(self.done)
        key = uri.removeprefix("s3://ray/")
        self.world.store.buckets["ray"][f"{key}/data"] = (self.data(self.done), self.world.clock())
        self.reports += 1
        number: dict[str, Any] = {"metrics": metrics, "report": self.reports}
        for rank in range(self.ranks):
            self.write("state_handed", rank=rank, **self.state(self.done), **number)
        self.write("checkpoint_saved", rank=0, uri=uri, files=self.files(self.done), **number)
        self.write("checkpoint_committed", uri=uri, metrics=metrics)
        for rank in range(self.ranks):
            saved = {"checkpoint": uri, "handed": True} if rank == 0 else {}
            self.write("report", rank=rank, **saved, **number)

    def again(self) -> None:
        lab = self.world.host.labs["raylab"]
        nodes = [n for n in lab.node_list() if n.alive and n.service in (W0, W1)]
        free = [n for n in nodes if lab.state(n.service) is State.HEALTHY]
        places = [n.service for n in free for _ in range(int(n.resources["CPU"] // self.cpus))]
        if len(places) >= (self.least or self.ranks):
            self.start_on(tuple(dict.fromkeys(places[: self.ranks])))
        else:
            self.world.clock.after(0.5, self.again)

    def lives(self, service: str) -> bool:
        lab = self.world.host.labs["raylab"]
        return self.world.node_id(service) == self.nodes[service] and lab.state(service) is State.HEALTHY

    def write(self, event: str, **fields: Any) -> None:
        self.world.write(event, self.job, attempt=self.attempt, run=self.run, **fields)

    @property
    def run(self) -> str:
        return self.name or (RUN if self.job == JOB else f"{RUN}-{self.job}")

    def uri(self, epoch: int) -> str:
        return f"s3://ray/{self.run}/checkpoint_{epoch:06d}"

    def data(self, epoch: int) -> bytes:
        return f"weights of epoch {epoch}".encode()

    def tensors(self, epoch: int) -> list[str]:
        return [hashlib.sha256(self.data(epoch)).hexdigest()[:16]]

    def state(self, epoch: int) -> dict[str, Any]:
        return {"state": {"tensors": {"0.weight": self.tensors(epoch)[0]}, "order": [["0.weight"]]}}

    def files(self, epoch: int) -> dict[str, Any]:
        data = self.data(epoch)
        return {"data": {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}}
