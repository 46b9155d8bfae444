"""A lab without processes, network or clock, for the tests of the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from click.testing import CliRunner, Result

from lab.cli.context import App
from lab.cli.core import Core, Opened
from lab.cli.main import cli
from lab.cluster.allocation import TopView, Waiting
from lab.cluster.api import Node, RayApi
from lab.cluster.jobs import Job, Jobs
from lab.cluster.submission import Submission
from lab.errors import LabDownError, LabError, NotFoundError, StoreError
from lab.evidence.checkpoints import CheckpointInfo
from lab.evidence.receipt import (
    Attempt,
    CheckpointProof,
    CheckResult,
    Compared,
    Comparison,
    FaultRecord,
    Receipt,
    Timeline,
    Verdict,
)
from lab.faults import Traits
from lab.faults.active import ActiveFault
from lab.flows.demo import DemoRequest, DemoResult
from lab.flows.doctor import Check
from lab.flows.doctor.pinning import WorkerView
from lab.flows.recovery import FaultRequest, Moment, OnMoment, Outcome
from lab.flows.recovery.heal import Healed
from lab.host.gpus import Detection
from lab.lab import Lab, Placement
from lab.runtime.base import Execution, OnProgress, Runtime, ignore_progress
from lab.spec import Asked, spec_of
from lab.topology import (
    Credentials,
    Endpoints,
    GpuPlan,
    LabSpec,
    LabStatus,
    Progress,
    ServiceStatus,
    State,
    Vendor,
)

DASHBOARD = "http://127.0.0.1:8265"
SERVICES = ("ray-head", "ray-worker-0", "ray-worker-1", "minio", "jupyter")
URLS = {
    "ray-head": DASHBOARD,
    "minio": "http://127.0.0.1:9000",
    "jupyter": "http://127.0.0.1:8888/lab?token=hush-jupyter",
    "grafana": "http://127.0.0.1:3000",
}
CHECKS = (
    "job finished",
    "a real fault",
    "moved",
    "right checkpoint",
    "resumed, not restarted",
    "little lost",
    "lab whole again",
)
AT = 1_800_000_000.0
"""When everything happens, in seconds since the epoch."""


class FakeRuntime(Runtime):
    """States in memory; `journal` has the calls that change something."""

    kind = "fake"

    def __init__(self, lab: str = "raylab", *, up: bool = True) -> None:
        super().__init__(lab)
        self.is_up = up
        self.started = LabSpec(lab)
        """What it was started with."""
        self.states = dict.fromkeys(SERVICES, State.HEALTHY)
        self.journal: list[tuple[Any, ...]] = []
        self.lines = ["one", "two", "three"]
        self.fail: BaseException | None = None
        """Raised by `up`, and at the end of the lines of `logs`."""

    def up(self, spec: LabSpec, on_progress: OnProgress = ignore_progress) -> LabStatus:
        self.journal.append(("up", spec))
        on_progress(Progress("ray-head", State.STARTING, "", 0.0))
        on_progress(Progress("ray-head", State.HEALTHY, "", 1.25))
        if self.fail is not None:
            raise self.fail
        self.is_up = True
        return self.status()

    def down(self, *, volumes: bool = False, on_progress: OnProgress = ignore_progress) -> tuple[str, ...]:
        self.journal.append(("down", volumes))
        stopped = SERVICES if self.is_up else ()
        self.is_up = False
        return stopped

    def status(self) -> LabStatus:
        services = tuple(
            ServiceStatus(
                name,
                state,
                "" if state is State.HEALTHY else "signal 9",
                URLS.get(name, ""),
                100 + number,
            )
            for number, (name, state) in enumerate(self.states.items())
        )
        plan = GpuPlan(Vendor.NONE, (), "asked for")
        notes = ("S3 server: moto",) if self.is_up else ()
        return LabStatus(self.lab, self.kind, self.is_up, services if self.is_up else (), plan, notes)

    def spec(self) -> LabSpec:
        self._need()
        return self.started

    def endpoints(self) -> Endpoints:
        self._need()
        return Endpoints(
            DASHBOARD,
            "127.0.0.1:6379",
            URLS["minio"],
            Credentials("hush-access", "hush-secret"),
            "hush-ray",
            "/home/x/.raylab/raylab/ray.token",
            URLS["jupyter"],
            grafana=URLS["grafana"],
            grafana_password="hush-grafana",
        )

    def logs(self, service: str, *, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        self._need(service)
        yield from self.lines if tail is None else self.lines[len(self.lines) - tail :]
        if self.fail is not None:
            raise self.fail

    def kill(self, service: str) -> None:
        self._need(service)

    def stop(self, service: str, *, timeout: float = 10.0) -> None:
        self._need(service)
        self.journal.append(("stop", service))
        self.states[service] = State.EXITED

    def pause(self, service: str) -> None:
        self._need(service)

    def resume(self, service: str) -> None:
        self._need(service)

    def start(self, service: str, on_progress: OnProgress = ignore_progress, *, wait: bool = True) -> None:
        self._need(service)
        self.journal.append(("start", service))
        self.states[service] = State.HEALTHY
        on_progress(Progress(service, State.HEALTHY, "", 2.0))

    def execute(
        self,
        service: str,
        argv: Sequence[str],
        *,
        timeout: float = 60.0,
        on_line: Callable[[str], None] | None = None,
    ) -> Execution:
        self._need(service)
        return Execution(127, f"{argv[0]}: not found")

    def _need(self, service: str | None = None) -> None:
        if not self.is_up:
            raise LabDownError(f"lab {self.lab} is down", "start it with `labctl up`")
        if service is not None and service not in self.states:
            raise NotFoundError(f"lab {self.lab} has no service {service!r}")


def node(service: str, *, alive: bool = True) -> Node:
    """A Ray node of this service."""
    offers = {"CPU": 8.0, "memory": 1e9}
    return Node(f"{service}-0123456789abcdef", service, alive, service == "ray-head", offers, AT, None, "")


class FakeApi(RayApi):
    """The nodes of the cluster, in memory."""

    def __init__(self) -> None:
        super().__init__(DASHBOARD, "")
        self.all = tuple(node(f"ray-{name}") for name in ("head", "worker-0", "worker-1"))
        self.fail: Exception | None = None

    def nodes(self) -> tuple[Node, ...]:
        if self.fail is not None:
            raise self.fail
        return self.all


def job(job_id: str = "job-1", status: str = "SUCCEEDED", **changes: Any) -> Job:
    """A job that ran for 12.5 s."""
    ended = None if status in ("RUNNING", "PENDING") else AT + 12.5
    values: dict[str, Any] = {
        "entrypoint": "python train.py --epochs 3",
        "message": "",
        "started_at": AT,
        "ended_at": ended,
        "node_id": "n",
        "exit_code": 0 if status == "SUCCEEDED" else None,
        "metadata": {"raylab_recipe": "digits"},
    }
    return Job(job_id, status, **{**values, **changes})


class FakeJobs(Jobs):
    """The Jobs API in memory."""

    def __init__(self, jobs: Sequence[Job] = ()) -> None:
        super().__init__(FakeApi())
        self.known = {item.submission_id: item for item in jobs}
        self.text = "epoch 1/3\nepoch 2/3\n"
        self.submitted: list[Submission] = []
        self.ends = job()
        """What a submitted job becomes."""
        self.interrupt: BaseException | None = None

    def submit(self, submission: Submission) -> str:
        self.submitted.append(submission)
        self.known[self.ends.submission_id] = self.ends
        return self.ends.submission_id

    def list(self) -> tuple[Job, ...]:
        return tuple(self.known.values())

    def get(self, submission_id: str) -> Job:
        if submission_id not in self.known:
            raise NotFoundError(f"there is no job {submission_id!r}", "latest jobs: none")
        return self.known[submission_id]

    def logs(self, submission_id: str) -> str:
        self.get(submission_id)
        return self.text

    def follow(
        self, submission_id: str, on_poll: Callable[[Job], None] = lambda _: None, **more: Any
    ) -> Iterator[str]:
        on_poll(self.get(submission_id))
        yield from self.logs(submission_id).splitlines()
        if self.interrupt is not None:
            raise self.interrupt

    def stop(self, submission_id: str) -> Job:
        self.known[submission_id] = job(self.get(submission_id).submission_id, "STOPPED")
        return self.known[submission_id]


class FakeLab(Lab):
    """A lab whose parts are fakes."""

    def __init__(self, runtime: FakeRuntime, jobs: FakeJobs, api: FakeApi) -> None:
        super().__init__(runtime)
        self.__dict__.update(api=api, jobs=jobs)
        self.saved: tuple[CheckpointInfo, ...] = ()
        self.earlier: tuple[Job, ...] = ()
        self.store_fails: StoreError | None = None
        self.waits: dict[str, Waiting] = {}
        self.views: list[TopView | Exception] = []
        """What `top` gives, in turn; the last one from then on."""
        self.forgotten = 0
        """How often its connections were."""
        self.fail: Exception | None = None

    def forget_connections(self) -> None:
        self.forgotten += 1

    def waiting_jobs(self) -> dict[str, Waiting]:
        if self.fail is not None:
            raise self.fail
        return self.waits

    def top(self) -> TopView:
        self.endpoints()
        view = self.views.pop(0) if len(self.views) > 1 else self.views[0]
        if isinstance(view, Exception):
            raise view
        return view

    def job(self, submission_id: str) -> Job:
        earlier = next((j for j in self.earlier if j.submission_id == submission_id), None)
        return earlier or self.jobs.get(submission_id)

    def earlier_jobs(self, known: Sequence[Job]) -> tuple[Job, ...]:
        if self.store_fails is not None:
            raise self.store_fails
        return self.earlier

    def checkpoints(self, job: str | None = None) -> tuple[CheckpointInfo, ...]:
        self.endpoints()
        if self.fail is not None:
            raise self.fail
        if job is not None:
            self.jobs.get(job)
        return self.saved

    def placement(self, submission_id: str) -> Placement:
        if self.fail is not None:
            raise self.fail
        return Placement(submission_id, "ray-head", ((0, "ray-worker-1"),))


def receipt(verdict: str = "recovered", *, failing: str = "") -> Receipt:
    """A receipt of a kill; the check called `failing` has not passed."""
    sha = "3f" * 32
    return Receipt(
        verdict=Verdict(verdict),
        reason="every check passed" if verdict == "recovered" else "it never called get_checkpoint",
        fault=FaultRecord(
            "kill", "ray-worker-0", "aa", AT, AT + 4.25, traits=Traits("was killed", ends_node=True)
        ),
        timeline=Timeline(0.9, 1.0, 2.6, 3.4, 4.1, None),
        checkpoint=CheckpointProof("s3://ray/job-1/checkpoint_000004", 5, sha, sha),
        attempts=(
            Attempt(1, ("ray-worker-0",), 1, 6, AT - 20, AT + 1),
            Attempt(2, ("ray-worker-1",), 6, 20, AT + 2.6, AT + 31.6),
        ),
        lost_epochs=1,
        submission_id="job-1",
        job_status="SUCCEEDED",
        checks=tuple(CheckResult(name, name != failing, f"detail of {name}") for name in CHECKS),
        run="run-1",
        epoch_key="epoch",
        problems=(),
    )


MOMENTS = (
    Moment("waiting", None, "waiting for a complete checkpoint in job job-1"),
    Moment("fault", 0.0, "kill ray-worker-0"),
    Moment("node_dead", 0.9, "Ray declares the node dead"),
    Moment("first_report", 4.1, "reports epoch 6"),
    Moment("progress 7", 5.0, "epoch 7/20"),
    Moment("job_finished", 31.0, "job job-1: SUCCEEDED"),
)


@dataclass
class FakeCore(Core):
    """What the commands call, in memory."""

    runtime: FakeRuntime = field(default_factory=FakeRuntime)
    jobs: FakeJobs = field(default_factory=FakeJobs)
    api: FakeApi = field(default_factory=FakeApi)
    fail: BaseException | None = None
    """Raised instead of injecting, demonstrating or checking."""
    uncompared: LabError | None = None
    """Why a demo has no control run."""
    verdict: str = "recovered"
    failing: str = ""
    """The check of the receipt that has not passed."""
    warnings: tuple[Check, ...] = ()
    found: tuple[Check, ...] = ()
    requests: list[Any] = field(default_factory=list)
    opened: list[tuple[str, str]] = field(default_factory=list)
    test_code: int = 0
    planned: GpuPlan = field(default_factory=lambda: GpuPlan(Vendor.NONE, (), "no GPU here"))
    gpu_fail: LabError | None = None
    """Raised instead of planning GPUs."""
    detections: tuple[Detection, ...] = ()
    views: tuple[WorkerView, ...] = ()
    left: tuple[ActiveFault, ...] = ()
    """Faults that a labctl left behind."""
    heal_problem: str = ""
    lost: tuple[str, ...] | LabError = ()
    """Attempts that the job lost without a recorded fault."""

    def __post_init__(self) -> None:
        self.lab = FakeLab(self.runtime, self.jobs, self.api)

    def open(self, runtime: str, name: str) -> Opened:
        self.opened.append((runtime, name))
        self.runtime.lab = name
        return Opened(self.lab, "fake", "auto: no Docker Engine answers")

    def spec(self, lab: Lab, asked: Asked) -> LabSpec:
        return spec_of(lab.runtime, asked, self.plan)

    def plan(self, choice: str, workers: int, runtime: str, *, chosen: Sequence[str], share: bool) -> GpuPlan:
        self.requests.append((choice, tuple(chosen), share, workers))
        if self.gpu_fail is not None:
            raise self.gpu_fail
        return self.planned

    def gpus(self, runtime: str) -> tuple[Detection, ...]:
        return self.detections

    def worker_views(self, lab: Lab) -> tuple[WorkerView, ...]:
        return self.views

    def resource_warnings(self, workers: int) -> tuple[Check, ...]:
        return self.warnings

    def inject(
        self, lab: Lab, request: FaultRequest, on_moment: OnMoment, *, wait: bool, control: bool = False
    ) -> Outcome:
        self.requests.append((request, wait, control) if control else (request, wait))
        for moment in MOMENTS[: 3 if self.fail else None]:
            on_moment(moment)
        if self.fail is not None:
            raise self.fail
        result = receipt(self.verdict, failing=self.failing)
        return Outcome(result.fault, result if wait else None)

    def lost_attempts(self, lab: Lab, job: str) -> tuple[str, ...]:
        if isinstance(self.lost, LabError):
            raise self.lost
        return self.lost

    def heal(
        self, lab: Lab, on_begin: Callable[[ActiveFault], None], on_progress: OnProgress
    ) -> tuple[Healed, ...]:
        for entry in self.left:
            on_begin(entry)
            detail = "started again: the machine was too busy (try 2 of 3)"
            on_progress(Progress(entry.target, State.STARTING, detail))
        return tuple(Healed(e.kind, e.target, e.job, e.at, self.heal_problem) for e in self.left)

    def left_behind(self, lab: Lab) -> tuple[ActiveFault, ...]:
        return self.left

    def demo(
        self,
        lab: Lab,
        spec: LabSpec,
        request: DemoRequest,
        on_progress: OnProgress,
        on_moment: OnMoment,
    ) -> DemoResult:
        self.requests.append(request)
        lab.up(spec, on_progress)
        for moment in MOMENTS:
            on_moment(moment)
        if self.fail is not None:
            raise self.fail
        values = (Compared("epoch", 20, 20), Compared("weights_sha256", "3f3f", "3f3f"))
        compared = request.control and self.uncompared is None
        same = Comparison("equal", "equal", values) if compared else None
        seconds = {"up": 9.25, "train and recover": 60.0}
        return DemoResult(
            receipt(self.verdict, failing=self.failing),
            same,
            "job-1",
            "job-2",
            "ray-worker-0",
            seconds,
            problem=self.uncompared,
        )

    def checks(self, name: str, runtime: str) -> tuple[Check, ...]:
        self.requests.append((name, runtime))
        return self.found

    def store_checks(
        self, url: str, bucket: str, file: Path | None, name: str, runtime: str
    ) -> tuple[Check, ...]:
        self.requests.append((url, bucket, file, name, runtime))
        return self.found

    def test(self, arguments: Sequence[str], say: Callable[[str], None], *, to_stderr: bool) -> int:
        self.requests.append((tuple(arguments), to_stderr))
        say("== ruff check")
        return self.test_code


@dataclass
class Labctl:
    """Runs command lines against one fake core."""

    core: FakeCore = field(default_factory=FakeCore)
    env: dict[str, str | None] = field(default_factory=lambda: {"RAYLAB_NAME": None, "RAYLAB_RUNTIME": None})

    def __call__(self, *args: str, input: str | None = None) -> Result:
        """One command line."""
        return CliRunner().invoke(cli, args, obj=App(self.core), env=self.env, input=input)

    def ok(self, *args: str) -> str:
        """The stdout of a command line that succeeds."""
        result = self(*args)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *args: str, code: int = 0) -> dict[str, Any]:
        """The one JSON document that a command line with --json prints."""
        result = self(*args, "--json")
        assert result.exit_code == code, result.output
        return cast("dict[str, Any]", json.loads(result.stdout))
