"""A lab in memory for the tests of lessons: nodes, jobs, a store, a clock that passes only in `sleep`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lab.api.receipt import ReceiptDocument, Timeline
from lab.cluster.allocation.snapshot import SUPERVISOR
from lab.cluster.api import Node
from lab.cluster.jobs import Job
from lab.errors import HeadDownError
from lab.evidence.ledger import History
from lab.ext.course.lessons.model import Evidence, HostTask, Lesson, LessonCheck
from lab.lab import Lab
from lab.topology import Check, LabSpec
from tests.unit import fakes
from tests.unit.cli.fakes import receipt
from tests.unit.fakes import FakeApi, FakeLab

AT = 1_800_000_000.0
"""When the lesson began, in seconds since the epoch."""

STAMP = "20270115-080000"

NODES = tuple(
    Node(
        f"id-of-{service}",
        service,
        True,
        service == "ray-head",
        {} if service == "ray-head" else {"CPU": 8.0, "GPU": 1.0},
        AT - 100,
        None,
        "",
    )
    for service in ("ray-head", "ray-worker-0", "ray-worker-1")
)


def job(name: str, status: str = "SUCCEEDED", *, seconds: float = 20.0, **changes: Any) -> Job:
    """A job that was submitted 10 s after the lesson began and ran for `seconds` on ray-worker-0."""
    ran: dict[str, Any] = {
        "entrypoint": "python train.py",
        "started_at": AT + 10,
        "ended_at": None if status in ("PENDING", "RUNNING") else AT + 10 + seconds,
        "node_id": "id-of-ray-worker-0",
        "metadata": {},
    }
    return fakes.job(name, status, **{**ran, **changes})


def name(lesson: int, part: str, stamp: str = STAMP) -> str:
    """The id that a session gives a job."""
    return f"lesson-{lesson:02d}-{part}-{stamp}"


def evidence(lesson: int, *jobs: Job, **changes: Any) -> Evidence:
    """What is gathered of these jobs in a lab that is whole."""
    values: dict[str, Any] = {
        "began_at": AT,
        "jobs": jobs,
        "histories": {job.submission_id: History.of(()) for job in jobs},
        "logs": {job.submission_id: "" for job in jobs},
        "nodes": NODES,
    }
    return Evidence(lesson, **{**values, **changes})


def answer(check: LessonCheck, evidence: Evidence) -> Check:
    """The check's answer; a failed one must say what to do or what it found."""
    result = check(evidence)
    assert result.name
    assert result.detail
    assert result.outcome in ("passed", "failed")
    return result


class LessonApi(FakeApi):
    """Ray's HTTP API in memory."""

    def __init__(self) -> None:
        super().__init__(lambda: self.all)
        self.all = NODES
        self.down: HeadDownError | None = None
        self.demands: dict[str, Mapping[str, float]] = {}

    def get(self, path: str, *, timeout: float = 10.0) -> Any:
        if self.down is not None:
            raise self.down
        if path == "/api/version":
            return {"ray_version": "2.60.0"}
        assert path.startswith("/api/v0/actors")
        rows = [
            {"name": f"{SUPERVISOR}{job}", "state": "DEAD", "required_resources": dict(demand)}
            for job, demand in self.demands.items()
        ]
        return {"data": {"result": {"result": [*rows, {"name": None, "required_resources": None}]}}}


class LessonLab(FakeLab):
    """One lab and its clock. It is up unless `up` is false."""

    api: LessonApi

    def __init__(self, *, up: bool = True) -> None:
        super().__init__(at=AT, api=LessonApi())
        self.jobs.text = ""
        self.waits: dict[str, Any] = {}
        self.said: list[str] = []
        self.lab.waiting = self._waiting  # type: ignore[method-assign]
        if up:
            self.runtime.up(LabSpec())
            self.host.objects["raylab"]["something"] = b"stored"

    def _waiting(self, submission_id: str) -> Any:
        self.jobs.get(submission_id)
        return self.waits.get(submission_id)

    def notebook(self, argv: Sequence[str], *events: Mapping[str, Any], exit_code: int = 0) -> None:
        """The command that executes a notebook in Jupyter prints these events."""
        lines = "".join(json.dumps(event) + "\n" for event in events)
        self.runtime.answer("jupyter", argv, lines, exit_code)

    def kept(self, key: str) -> Any:
        """The JSON of an object in the store."""
        return json.loads(self.store.get(key))


Say = Callable[[str], None]


def failing(lesson: Lesson, seen: Evidence) -> list[str]:
    """Names of the lesson's checks that do not pass; each must say what it found."""
    answers = [check(seen) for check in (*lesson.checks, *lesson.checks_after_down)]
    assert all(answer.name and answer.detail for answer in answers)
    return [answer.name for answer in answers if answer.outcome != "passed"]


def play(lesson: Lesson, lab: Lab, task: HostTask) -> None:
    """Do on the host what the class does by hand."""
    assert lesson.host_task is not None
    lesson.host_task(lab, task)


def receipt_of(job: str, kind: str, **changes: Any) -> ReceiptDocument:
    """The receipt of a job for a fault of this kind, which it came through well but for these changes."""
    whole = receipt()
    fault, about = replace(whole.fault, kind=kind), replace(whole.job, submission_id=job)
    return replace(whole, **{"fault": fault, "job": about, "checks": (), "timeline": Timeline(), **changes})
