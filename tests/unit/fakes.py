"""Ray's APIs in memory, for a Lab on a fake runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lab.cluster.api import ApiReply, Node, RayApi
from lab.cluster.jobs import Job, Jobs
from lab.cluster.submission import Submission
from lab.errors import ClusterError, NotFoundError

AT = 1_800_000_000.0
"""Start of every job, in seconds since the epoch."""


class FakeApi(RayApi):
    """A dashboard that knows the nodes, and nothing else."""

    def __init__(self, nodes: Callable[[], tuple[Node, ...]] = tuple) -> None:
        super().__init__("http://127.0.0.1:1", "")
        self._nodes = nodes
        self.fail: ClusterError | None = None

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
    """The Jobs API."""

    def __init__(self, *jobs: Job) -> None:
        super().__init__(FakeApi())
        self.known = {item.submission_id: item for item in jobs}
        self.text = "epoch 1/3\nepoch 2/3\n"
        """Log of every job."""
        self.submitted: list[Submission] = []
        self.ends = job()
        """A submitted job becomes this."""
        self.interrupt: BaseException | None = None
        """Raised at the end of a log that is followed."""

    def put(self, *jobs: Job) -> None:
        """Replace all jobs."""
        self.known = {item.submission_id: item for item in jobs}

    def submit(self, submission: Submission, working_dir: bytes | None = None) -> str:
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
