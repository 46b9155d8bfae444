"""Jobs: Ray submissions through the Jobs API. The only module that talks to it."""

from __future__ import annotations

import hashlib
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lab.cluster.api import RayApi, Row
from lab.cluster.submission import Submission, package
from lab.errors import ClusterError, NotFoundError, RefusedError, UsageError, WaitTimeoutError
from lab.topology import JOB_FINAL

EARLIER = "EARLIER"
"""Status of a job that Ray no longer knows, since it ran before the cluster's head was started anew: no word
of Ray's, see lab.cluster.earlier."""

POLL_SECONDS = 0.5

SILENCE_SECONDS = 30.0
"""How long the dashboard may not answer while a job is followed."""

STOP_SECONDS = 30.0
"""Deadline for a job to end once it was asked to."""

GIVE_UP_SECONDS = 120.0
"""Deadline for the driver that takes a waiting job out of the queue: importing Ray can take long."""

START_GRACE_SECONDS = 3.0
"""How long a job that is asked to stop before it has started may take to do so by itself."""

INTERACTIVE = "interactive-"
"""How drivers that were not submitted are called, here and by their ledgers."""

GIVE_UP = (
    "import ray, sys; ray.init(logging_level='error'); ray.kill(ray.get_actor("
    "'_ray_internal_job_actor_' + sys.argv[1], namespace='SUPERVISOR_ACTOR_RAY_NAMESPACE'))"
)
"""Ends the actor that would run a job, as no call of the Jobs API does (ray 2.60)."""

RELEASE_SECONDS = 3.0
"""How long Ray may take to give back by itself what a stopped job has reserved."""

RELEASE = (
    "import ray, sys; from ray._raylet import PlacementGroupID as Id; "
    "from ray.util.placement_group import PlacementGroup, remove_placement_group; "
    "ray.init(logging_level='error'); "
    "[remove_placement_group(PlacementGroup(Id.from_hex(one))) for one in sys.argv[1:]]"
)
"""Removes placement groups. Ray (2.60) forgets that of a training which is stopped while its ranks wait:
it is placed once there is room, and holds that for ever."""


@dataclass(frozen=True)
class Job:
    """A submission as Ray knows it. Times are seconds since the epoch."""

    submission_id: str
    status: str
    entrypoint: str
    message: str
    started_at: float | None
    ended_at: float | None
    node_id: str
    """Node of the driver, empty while there is none."""
    exit_code: int | None
    metadata: Mapping[str, str]
    num_cpus: float = 0
    num_gpus: float = 0
    driver_id: str = ""
    """Ray's own id of the driver, empty while there is none; of an entrypoint without Ray for ever."""

    @property
    def final(self) -> bool:
        """Whether the job has ended."""
        return self.status in JOB_FINAL or self.earlier

    @property
    def earlier(self) -> bool:
        """Whether it is one of an earlier cluster, of which only its ledger tells."""
        return self.status == EARLIER

    @property
    def demand(self) -> Mapping[str, float]:
        """What the entrypoint asks of one node, if labctl submitted it: resource -> amount."""
        return {"CPU": self.num_cpus, "GPU": self.num_gpus}

    @property
    def recipe(self) -> str:
        """The recipe it came from, or empty."""
        return self.metadata.get("raylab_recipe", "")


class Jobs:
    """The Jobs API of one cluster."""

    def __init__(
        self,
        api: RayApi,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._api, self._clock, self._sleep = api, clock, sleep

    def submit(self, submission: Submission) -> str:
        """Send the working directory and start the job; returns its submission id.

        Raises UsageError for a submission Ray refuses (an id that exists, a bad runtime_env), ClusterError.
        """
        runtime_env = dict(submission.runtime_env)
        if submission.working_dir is not None:
            runtime_env["working_dir"] = self._upload(submission.working_dir)
        metadata = {
            "raylab_cpus": f"{submission.num_cpus:g}",
            "raylab_gpus": f"{submission.num_gpus:g}",
            **submission.metadata,
        }
        body: dict[str, Any] = {
            "entrypoint": shlex.join(submission.command),
            "runtime_env": runtime_env,
            "metadata": metadata,
        }
        if submission.num_cpus:
            body["entrypoint_num_cpus"] = submission.num_cpus
        if submission.num_gpus:
            body["entrypoint_num_gpus"] = submission.num_gpus
        if submission.submission_id:
            body["submission_id"] = submission.submission_id
        reply = self._api.request("POST", "/api/jobs/", body=body, timeout=60)
        if reply.status != 200:
            raise UsageError(f"Ray refused the job: {_last_line(reply.data)}")
        return str(reply.json()["submission_id"])

    def submit_again(
        self,
        submission_id: str,
        metadata: Mapping[str, str],
        folder: Path | None = None,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Submit the very same job once more, with `metadata` over its own; returns the new submission id.

        `environment` has variables beside those of its runtime environment. `folder` is where its working
        directory comes from, for when Ray no longer keeps that. Raises NotFoundError, ClusterError;
        RefusedError when what it ran is not there any more, or has changed.
        """
        self.get(submission_id)
        row = self._api.get(f"/api/jobs/{quote(submission_id, safe='')}")
        runtime_env, kept = dict(row.get("runtime_env") or {}), _strings(row.get("metadata"))
        sent = [str(uri) for uri in (runtime_env.get("working_dir"), *(runtime_env.get("py_modules") or ()))]
        gone = [uri for uri in sent if uri.startswith("gcs://") and not self._keeps(uri)]
        if gone and (folder is None or {self._upload(folder)} != set(gone)):
            raise RefusedError(
                f"job {submission_id} cannot be run again: Ray no longer keeps its files",
                "it keeps them for 10 minutes, and while the job runs; submit it anew",
            )
        if environment:
            runtime_env["env_vars"] = {**(runtime_env.get("env_vars") or {}), **environment}
        body: dict[str, Any] = {
            "entrypoint": row["entrypoint"],
            "runtime_env": runtime_env,
            "metadata": {**kept, **metadata},
        }
        for resource in ("cpus", "gpus"):
            if amount := float(kept.get(f"raylab_{resource}") or 0):
                body[f"entrypoint_num_{resource}"] = amount
        reply = self._api.request("POST", "/api/jobs/", body=body, timeout=60)
        if reply.status != 200:
            raise ClusterError(f"Ray refused to run job {submission_id} again: {_last_line(reply.data)}")
        return str(reply.json()["submission_id"])

    def _keeps(self, package: str) -> bool:
        """Whether Ray still has a package. To ask makes it keep it for 10 minutes more (ray 2.60)."""
        return self._api.request("GET", f"/api/packages/{package.replace('://', '/')}").status == 200

    def list(self) -> tuple[Job, ...]:
        """Every submitted job, newest first. Drivers that were not submitted are left out."""
        return self._list(lambda row: row.get("submission_id"))

    def everything(self) -> tuple[Job, ...]:
        """Every submitted job and every other driver, newest first.

        A driver that was not submitted, such as a notebook's, is called `interactive-<Ray's job id>`.
        """
        return self._list(lambda row: row.get("submission_id") or row.get("job_id"))

    def _list(self, wanted: Callable[[Mapping[str, Any]], Any]) -> tuple[Job, ...]:
        rows = self._api.get("/api/jobs/")
        try:
            jobs = [_job(row) for row in rows if wanted(row)]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ClusterError(f"Ray's list of jobs has an unknown shape ({error!r})") from error
        return tuple(sorted(jobs, key=lambda job: job.started_at or 0.0, reverse=True))

    def get(self, submission_id: str) -> Job:
        """One job. Raises NotFoundError that names the latest ones."""
        reply = self._api.request("GET", f"/api/jobs/{quote(submission_id, safe='')}")
        row = reply.json() if reply.status == 200 else {}
        if reply.status == 404 or (row and not row.get("submission_id")):  # a driver has no submission id
            latest = ", ".join(job.submission_id for job in self.list()[:5]) or "none"
            raise NotFoundError(f"there is no job {submission_id!r}", f"latest jobs: {latest}")
        if reply.status != 200:
            raise ClusterError(f"Ray could not show job {submission_id}: {_last_line(reply.data)}")
        return _job(row)

    def logs(self, submission_id: str) -> str:
        """Everything the job's driver printed so far. Raises NotFoundError."""
        self.get(submission_id)
        reply = self._api.request("GET", f"/api/jobs/{quote(submission_id, safe='')}/logs", timeout=30)
        if reply.status != 200:  # no driver yet, or its node is gone with the log
            return ""
        return str(reply.json().get("logs") or "")

    def follow(self, submission_id: str, on_poll: Callable[[Job], None] = lambda _: None) -> Iterator[str]:
        """The log a line at a time, until the job has ended. Raises NotFoundError.

        `on_poll` gets the job each time it was asked for, also while it prints nothing.
        """
        shown = 0
        while True:
            job = self._get_patiently(submission_id)
            ended = job.final
            on_poll(job)
            text = self.logs(submission_id)
            complete = len(text) if ended else text.rfind("\n") + 1
            yield from text[shown:complete].splitlines()
            shown = max(shown, complete)
            if ended:
                return
            self._sleep(POLL_SECONDS)

    def wait(self, submission_id: str, timeout: float) -> Job:
        """The job once it has ended. Raises WaitTimeoutError with its last log lines."""
        deadline = self._clock() + timeout
        while True:
            job = self._get_patiently(submission_id)
            if job.final:
                return job
            if self._clock() >= deadline:
                tail = "\n".join(self.logs(submission_id).splitlines()[-10:])
                raise WaitTimeoutError(
                    f"job {submission_id} is still {job.status} after {timeout:g} s. Its last lines:\n{tail}"
                )
            self._sleep(POLL_SECONDS)

    def stop(self, submission_id: str) -> Job:
        """Ask the job to stop (Ray sends SIGTERM, then SIGKILL after 3 s); what it reserved is free then.

        One that waits for resources cannot answer: its place in the queue is given up, and it ends as FAILED.
        One that has ended stays as it is, but what Ray still keeps for it is given back.
        Raises NotFoundError, ClusterError, WaitTimeoutError.
        """
        job = self.get(submission_id)
        if job.final:
            self._release(job)
            return job
        reply = self._api.request("POST", f"/api/jobs/{quote(submission_id, safe='')}/stop", timeout=30)
        if reply.status != 200:
            raise ClusterError(f"Ray could not stop job {submission_id}: {_last_line(reply.data)}")
        deadline = self._clock() + START_GRACE_SECONDS
        while job.status == "PENDING" and self._clock() < deadline:
            self._sleep(POLL_SECONDS)
            job = self.get(submission_id)
        if job.status == "PENDING":
            self._give_up(submission_id)
        stopped = self.wait(submission_id, STOP_SECONDS)
        self._release(stopped)
        return stopped

    def _give_up(self, submission_id: str) -> None:
        ended = self._helper(GIVE_UP, submission_id)
        if ended.status != "SUCCEEDED" and not self.get(submission_id).final:
            raise ClusterError(
                f"Ray could not stop job {submission_id}: {_last_line(ended.message.encode())}"
            )

    def _release(self, job: Job) -> None:
        """Give back what is still reserved for an ended job, unless Ray does so itself."""
        deadline = self._clock() + RELEASE_SECONDS
        while left := self._reserved(job.driver_id):
            if self._clock() >= deadline:
                break
            self._sleep(POLL_SECONDS)
        if left and self._helper(RELEASE, *left).status != "SUCCEEDED" and self._reserved(job.driver_id):
            raise ClusterError(
                f"job {job.submission_id} has ended, but Ray still reserves its GPUs and CPUs",
                "`labctl restart ray-head` frees them, and ends every running job",
            )

    def _reserved(self, driver_id: str) -> tuple[str, ...]:
        """Ids of the placement groups that Ray keeps for a driver."""
        if not driver_id:
            return ()

        def reserved(row: Row) -> str:
            mine = row["creator_job_id"] == driver_id and row["state"] != "REMOVED"
            return str(row["placement_group_id"]) if mine else ""

        return tuple(filter(None, self._api.rows("placement_groups", reserved)))

    def _helper(self, code: str, *arguments: str) -> Job:
        """Run Python code as a job of labctl's own, which is forgotten afterwards; returns how it ended."""
        helper = self.submit(Submission(("python", "-c", code, *arguments)))
        ended = self.wait(helper, GIVE_UP_SECONDS)
        self._api.request("DELETE", f"/api/jobs/{quote(helper, safe='')}")
        return ended

    def _get_patiently(self, submission_id: str) -> Job:
        """Like `get`, but bears a dashboard that is silent for a while, as on a machine under full load."""
        deadline = self._clock() + SILENCE_SECONDS
        while True:
            try:
                return self.get(submission_id)
            except ClusterError:
                if self._clock() >= deadline:
                    raise
            self._sleep(POLL_SECONDS)

    def _upload(self, folder: Path) -> str:
        data = package(folder)
        name = f"_ray_pkg_{hashlib.sha256(data).hexdigest()[:16]}.zip"
        path = f"/api/packages/gcs/{name}"
        if self._api.request("GET", path).status != 200:
            reply = self._api.request("PUT", path, body=data, timeout=120)
            if reply.status != 200:
                raise ClusterError(
                    f"Ray did not take the working directory {folder}: {_last_line(reply.data)}"
                )
        return f"gcs://{name}"


def _job(row: Mapping[str, Any]) -> Job:
    metadata = _strings(row.get("metadata"))
    return Job(
        submission_id=str(row.get("submission_id") or f"{INTERACTIVE}{row['job_id']}"),
        status=str(row["status"]),
        entrypoint=str(row.get("entrypoint") or ""),
        message=str(row.get("message") or ""),
        started_at=row["start_time"] / 1000 if row.get("start_time") else None,
        ended_at=row["end_time"] / 1000 if row.get("end_time") else None,
        node_id=str(row.get("driver_node_id") or ""),
        exit_code=row.get("driver_exit_code"),
        metadata=metadata,
        num_cpus=float(metadata.get("raylab_cpus", 0)),
        num_gpus=float(metadata.get("raylab_gpus", 0)),
        driver_id=str(row.get("job_id") or ""),
    )


def _strings(mapping: Mapping[Any, Any] | None) -> dict[str, str]:
    return {str(key): str(value) for key, value in (mapping or {}).items()}


def _last_line(data: bytes) -> str:
    lines = [line for line in data.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no reason given"
