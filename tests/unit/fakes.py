"""Ray's APIs in memory, for a Lab on a fake runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lab.cluster.api import ApiReply, Node, RayApi
from lab.cluster.job_logs import WHOLE
from lab.cluster.jobs import Job, Jobs
from lab.cluster.submission import Submission
from lab.errors import ClusterError, NotFoundError
from lab.host.clock import MONOTONIC, Clock
from lab.lab import Lab
from lab.topology import JOB_FINAL
from tests.fakes import FakeHost, FakeRuntime
from tests.fakes.host import FakeClock
from tests.fakes.store import FakeObjectStore

AT = 1_800_000_000.0
"""Start of every job, in seconds since the epoch."""


class FakeApi(RayApi):
    """A dashboard that knows the nodes, and nothing else."""

    def __init__(self, nodes: Callable[[], tuple[Node, ...]] = tuple) -> None:
        super().__init__("http://127.0.0.1:1", "")
        self._nodes = nodes
        self.fail: ClusterError | None = None

    def silence(self, on: bool = True) -> None:
        """Answer nothing more, or again."""
        self.fail = ClusterError("Ray's dashboard does not answer") if on else None

    def nodes(self) -> tuple[Node, ...]:
        if self.fail is not None:
            raise self.fail
        return self._nodes()

    def request(self, method: str, path: str, *, body: Any = None, timeout: float = 0.0) -> ApiReply:
        raise ClusterError(f"a fake dashboard has no {path}")


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
    """The Jobs API: jobs as a test sets them."""

    def __init__(self, *jobs: Job, clock: Clock = MONOTONIC) -> None:
        super().__init__(FakeApi(), clock=clock)
        self.known = {item.submission_id: item for item in jobs}
        self.text = "epoch 1/3\nepoch 2/3\n"
        """Log of every job that has none of its own."""
        self.output: dict[str, str] = {}
        """Job -> its own log."""
        self.later: dict[str, list[tuple[Job, str]]] = {}
        """What the next looks at a job find."""
        self.unstoppable: set[str] = set()
        self.submitted: list[Submission] = []
        self.ends = job()
        """A submitted job becomes this."""

    def put(self, *jobs: Job) -> None:
        """Replace all jobs."""
        self.known = {item.submission_id: item for item in jobs}

    def add(self, job: Job, output: str = "") -> None:
        """There is this job now, with this log."""
        self.known[job.submission_id], self.output[job.submission_id] = job, output

    def then(self, job: Job, output: str) -> None:
        """The next look at the job finds this."""
        self.later.setdefault(job.submission_id, []).append((job, output))

    def become(
        self, status: str, submission_id: str = "j1", *, at: float = 0.0, node_id: str = "", message: str = ""
    ) -> None:
        """The job, which may be a new one, has this status now, and its log still."""
        ended = at if status in JOB_FINAL else None
        self.known[submission_id] = Job(
            submission_id, status, "python train.py", message, 0.0, ended, node_id, None, {}
        )

    def submit(self, submission: Submission, working_dir: bytes | None = None) -> str:
        self.submitted.append(submission)
        self.known[self.ends.submission_id] = self.ends
        return self.ends.submission_id

    def list(self) -> tuple[Job, ...]:
        return tuple(sorted(self.known.values(), key=lambda job: job.started_at or 0.0, reverse=True))

    def get(self, submission_id: str) -> Job:
        if self.later.get(submission_id):
            self.add(*self.later[submission_id].pop(0))
        if submission_id not in self.known:
            raise NotFoundError(f"there is no job {submission_id!r}", "see `labctl jobs`; latest: none")
        return self.known[submission_id]

    def logs(self, submission_id: str, last: int = WHOLE) -> str:
        if submission_id not in self.known:
            self.get(submission_id)
        return self._log(self.known[submission_id], last)

    def _log(self, job: Job, last: int) -> str:
        text = self.output.get(job.submission_id, self.text)
        return text if last == WHOLE else "".join(text.splitlines(keepends=True)[-last:])

    def stop(self, submission_id: str) -> Job:
        if submission_id in self.unstoppable:
            raise ClusterError(f"Ray could not stop job {submission_id}")
        job = self.get(submission_id)
        ended = (job.started_at or 0.0) + 60
        self.known[submission_id] = replace(job, status="STOPPED", ended_at=ended, exit_code=None)
        return self.known[submission_id]


class FakeLab:
    """A lab on a fake runtime, with Ray's APIs and a store in memory, and one clock for all of them."""

    def __init__(
        self,
        name: str = "raylab",
        *,
        at: float | None = None,
        api: FakeApi | None = None,
        jobs: FakeJobs | None = None,
    ) -> None:
        """Down. `at` is the time, `api` one that knows other nodes than the runtime's."""
        self.host = FakeHost() if at is None else FakeHost(FakeClock(at))
        self.clock = self.host.clock
        self.runtime = FakeRuntime(name, self.host)
        self.api = api or FakeApi(self.runtime.nodes)
        self.jobs, self.store = jobs or FakeJobs(clock=self.clock), FakeObjectStore(clock=self.clock)
        self.lab = Lab(self.runtime, api=self.api, jobs=self.jobs, store=self.store)
