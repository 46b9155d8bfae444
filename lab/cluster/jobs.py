"""Jobs: Ray submissions through the Jobs API. The only module that talks to it."""

from __future__ import annotations

import contextlib
import hashlib
import math
import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from lab.cluster.api import RayApi, Row, job_path, known_shape, last_line
from lab.cluster.helpers import GIVE_UP, HELPER, RELEASE, is_helper
from lab.cluster.job_logs import WHOLE, LogReader, lines_of, read_log
from lab.cluster.outage import (
    FORGOTTEN,
    LOST_SECONDS,
    UNNOTICED,
    DeadHeads,
    OnOutage,
    Outage,
    lost_with_head,
    patiently,
    say_nothing,
)
from lab.cluster.packing import module_package, package
from lab.cluster.runtime_env import excludes_of
from lab.cluster.submission import Submission
from lab.errors import ClusterError, LabError, NotFoundError, RefusedError, UsageError, WaitTimeoutError
from lab.host.clock import MONOTONIC, POLL_SECONDS, Clock, settle
from lab.topology import JOB_FINAL

T = TypeVar("T")

EARLIER = "EARLIER"
"""Status of a job that Ray has forgotten, because its head was started anew since: not a status of Ray's, see
lab.cluster.earlier."""

TAIL_LINES = 10
"""Last lines of the log that an error shows, and `jobs show`."""

STOP_SECONDS = 30.0
"""Deadline for a job to end once it was asked to."""

GIVE_UP_SECONDS = 120.0
"""Deadline for a helper job, such as takes a waiting job out of the queue: importing Ray can take long."""

START_GRACE_SECONDS = 3.0
"""Time in which a job that is asked to stop before it has started may end by itself."""

INTERACTIVE = "interactive-"
"""Prefix of the names of drivers that were not submitted, here and in their ledgers."""

RELEASE_SECONDS = 3.0
"""Time in which Ray may give back by itself what a stopped job has reserved."""


@dataclass(frozen=True)
class Job:
    """A submission as Ray knows it. Times are seconds since the epoch."""

    submission_id: str
    status: str
    entrypoint: str = ""
    message: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    node_id: str = ""
    """Node of the driver, empty while there is none."""
    exit_code: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    num_cpus: float = 0
    num_gpus: float = 0
    driver_id: str = ""
    """Ray's own id of the driver, empty while there is none; of an entrypoint without Ray for ever."""
    lost: bool = False
    """True for a job that died with its head, of which Ray says that it goes on."""

    @property
    def final(self) -> bool:
        return self.status in JOB_FINAL or self.earlier

    @property
    def earlier(self) -> bool:
        """True for a job of an earlier cluster, known only from its ledger."""
        return self.status == EARLIER

    @property
    def demand(self) -> Mapping[str, float]:
        """Demand of the entrypoint on one node, if labctl submitted it: resource -> amount."""
        return {"CPU": self.num_cpus, "GPU": self.num_gpus}

    @property
    def recipe(self) -> str:
        """The recipe it came from, or empty."""
        return self.metadata.get("raylab_recipe", "")


class Jobs:
    """The Jobs API of one cluster."""

    def __init__(self, api: RayApi, *, clock: Clock = MONOTONIC) -> None:
        self._api, self._clock = api, clock
        self._dead_heads = DeadHeads(api, clock)

    def submit(self, submission: Submission, working_dir: bytes | None = None) -> str:
        """Send the working directory and start the job; returns its submission id.

        `working_dir` is a zip, instead of a folder of the submission. Raises UsageError for a submission Ray
        refuses (an id that exists, a bad runtime_env), ClusterError.
        """
        runtime_env = dict(submission.runtime_env)
        if working_dir is not None:
            runtime_env["working_dir"] = self._send(".zip", working_dir, "the working directory of the job")
        elif submission.working_dir is not None:
            runtime_env["working_dir"] = self._upload(submission.working_dir, runtime_env)
        if modules := runtime_env.get("py_modules"):
            excludes = excludes_of(runtime_env)
            runtime_env["py_modules"] = [
                self._send(*module_package(one, excludes), f"the module {one}")
                if isinstance(one, Path)
                else one
                for one in modules
            ]
        amounts = {"raylab_cpus": f"{submission.num_cpus:g}", "raylab_gpus": f"{submission.num_gpus:g}"}
        body: dict[str, object] = {
            "entrypoint": shlex.join(submission.command),
            "runtime_env": runtime_env,
            "metadata": {**amounts, **submission.metadata},
        }
        wanted = {
            "entrypoint_num_cpus": submission.num_cpus,
            "entrypoint_num_gpus": submission.num_gpus,
            "submission_id": submission.submission_id,
        }
        body.update({name: value for name, value in wanted.items() if value})
        return self._start(body, UsageError, "Ray refused the job: ")

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
        kept = self.get(submission_id).metadata
        row = self._api.get(job_path(submission_id))
        runtime_env = dict(row.get("runtime_env") or {})
        sent = [str(uri) for uri in (runtime_env.get("working_dir"), *(runtime_env.get("py_modules") or ()))]
        gone = [uri for uri in sent if uri.startswith("gcs://") and not self._keeps(uri)]
        if gone and (folder is None or {self._upload(folder, runtime_env)} != set(gone)):
            raise RefusedError(
                f"job {submission_id} cannot be run again: Ray no longer keeps its files",
                "it keeps them for 10 minutes, and while the job runs; submit it again",
            )
        if environment:
            runtime_env["env_vars"] = {**(runtime_env.get("env_vars") or {}), **environment}
        body: dict[str, object] = {
            "entrypoint": row["entrypoint"],
            "runtime_env": runtime_env,
            "metadata": {**kept, **metadata},
        }
        for resource in ("cpus", "gpus"):
            if amount := float(kept.get(f"raylab_{resource}") or 0):
                body[f"entrypoint_num_{resource}"] = amount
        return self._start(body, ClusterError, f"Ray refused to run job {submission_id} again: ")

    def _start(self, body: Mapping[str, object], error: type[LabError], refused: str) -> str:
        """Start a job; returns its submission id. Raises `error` that begins with `refused`, ClusterError."""
        reply = self._api.request("POST", "/api/jobs/", body=body, timeout=60)
        if reply.status != 200:
            raise error(refused + last_line(reply.data))
        return str(reply.json()["submission_id"])

    def _keeps(self, package: str) -> bool:
        """Ask whether Ray still has a package, which makes it keep that for 10 minutes more (ray 2.60)."""
        return self._api.request("GET", f"/api/packages/{package.replace('://', '/')}").status == 200

    def list(self) -> tuple[Job, ...]:
        """Every submitted job, newest first. Drivers that were not submitted are left out."""
        return self._list(lambda row: row.get("submission_id"))

    def everything(self) -> tuple[Job, ...]:
        """Every submitted job and every other driver, newest first.

        A driver that was not submitted, such as a notebook's, is called `interactive-<Ray's job id>`.
        """
        return self._list(lambda row: row.get("submission_id") or row.get("job_id"))

    def _list(self, wanted: Callable[[Row], object]) -> tuple[Job, ...]:
        rows = self._api.get("/api/jobs/")
        with known_shape("Ray's list of jobs"):
            jobs = [self._read(row) for row in rows if wanted(row) and not is_helper(row)]
        return tuple(sorted(jobs, key=lambda job: job.started_at or 0.0, reverse=True))

    def get(self, submission_id: str) -> Job:
        """One job. Raises NotFoundError that names the latest ones."""
        job = self.find(submission_id)
        if job is None:
            latest = ", ".join(job.submission_id for job in self.list()[:5]) or "none"
            raise NotFoundError(f"there is no job {submission_id!r}", f"see `labctl jobs`; latest: {latest}")
        return job

    def find(self, submission_id: str) -> Job | None:
        """One job; None when Ray knows none of this id. Raises ClusterError."""
        reply = self._api.request("GET", job_path(submission_id))
        row = reply.json() if reply.status == 200 else {}
        if reply.status == 404 or (row and not row.get("submission_id")):  # a driver has no submission id
            return None
        if reply.status != 200:
            raise ClusterError(f"Ray could not show job {submission_id}: {last_line(reply.data)}")
        return self._read(row)

    def logs(self, submission_id: str, last: int = WHOLE) -> str:
        """Everything that the job's driver has written so far, or its last lines.

        Raises NotFoundError, also for a log that is gone with its node; ClusterError.
        """
        return self._log(self.get(submission_id), last)

    def _log(self, job: Job, last: int) -> str:
        return read_log(self._api, job, last)

    def follow(
        self,
        submission_id: str,
        on_poll: Callable[[Job], None] = lambda _: None,
        *,
        timeout: float = math.inf,
        appears_within: float = 0.0,
        on_outage: OnOutage = say_nothing,
    ) -> Iterator[str]:
        """The log a line at a time, until the job has ended.

        `on_poll` gets the job each time it was asked for, also while it prints nothing; the last time it has
        ended. The job may be unknown for `appears_within` seconds, as one that is just being submitted.
        `on_outage` hears that the head is down. Raises NotFoundError, ClusterError; JobError for a job that
        was lost with its head, WaitTimeoutError with its last lines after `timeout` seconds.
        """
        end, outage = self._clock() + timeout, Outage(self._clock, on_outage)
        job = patiently(lambda: self._ask(submission_id, outage), NotFoundError, appears_within, self._clock)
        log = LogReader(self._log)
        while True:
            on_poll(job)
            try:
                yield from patiently(partial(log.more, job), ClusterError, LOST_SECONDS, self._clock, outage)
            except NotFoundError as error:
                if job.final:
                    on_outage(error.message)
            if job.final:
                return
            if self._clock() >= end:
                raise self._still(job, timeout)
            self._clock.sleep(POLL_SECONDS)
            try:
                job = self._ask(submission_id, outage)
            except NotFoundError as error:
                raise lost_with_head(submission_id, FORGOTTEN) from error

    def wait(self, submission_id: str, timeout: float) -> Job:
        """The job once it has ended. Raises WaitTimeoutError with its last log lines."""
        job = self._settle(lambda: self._ask(submission_id), lambda known: known.final, timeout)
        if not job.final:
            raise self._still(job, timeout)
        return job

    def _still(self, job: Job, seconds: float) -> WaitTimeoutError:
        name, log = job.submission_id, ""
        with contextlib.suppress(LabError):
            log = self.logs(name, TAIL_LINES)
        tail = "\n".join(lines_of(log)[-TAIL_LINES:])
        return WaitTimeoutError(
            f"job {name} is still {job.status} after {seconds:g} s. Its last lines:\n{tail}",
            f"see what it waits for: `labctl jobs show {name}`; stop it: `labctl jobs stop {name}`",
        )

    def stop(self, submission_id: str) -> Job:
        """Ask the job to stop (Ray sends SIGTERM, then SIGKILL after 3 s); what it reserved is free then.

        One that waits for resources cannot answer: its place in the queue is given up.
        One that has ended stays as it is, but what Ray still keeps for it is given back.
        Raises NotFoundError, ClusterError, WaitTimeoutError.
        """
        job = self.get(submission_id)
        if job.final:
            self._release(job)
            return job
        reply = self._api.request("POST", f"{job_path(submission_id)}/stop", timeout=30)
        if reply.status != 200:
            raise ClusterError(f"Ray could not stop job {submission_id}: {last_line(reply.data)}")
        if job.status == "PENDING":
            job = self._settle(
                lambda: self.get(submission_id), lambda known: known.status != "PENDING", START_GRACE_SECONDS
            )
        if job.status == "PENDING":
            self._give_up(submission_id)
        stopped = self.wait(submission_id, STOP_SECONDS)
        self._release(stopped)
        return stopped

    def _give_up(self, submission_id: str) -> None:
        ended = self._helper(GIVE_UP, submission_id)
        if ended.status != "SUCCEEDED" and not self.get(submission_id).final:
            raise ClusterError(f"Ray could not stop job {submission_id}: {last_line(ended.message.encode())}")

    def _release(self, job: Job) -> None:
        """Give back resources that are still reserved for an ended job, unless Ray does so itself."""
        left = self._settle(lambda: self._reserved(job.driver_id), lambda groups: not groups, RELEASE_SECONDS)
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
        """Run Python code as a job of labctl's own, which no list has; returns that job, ended."""
        name = f"{HELPER}{secrets.token_hex(8)}"
        helper = self.submit(Submission(("python", "-c", code, *arguments), submission_id=name))
        return self.wait(helper, GIVE_UP_SECONDS)

    def _settle(self, look: Callable[[], T], done: Callable[[T], bool], seconds: float) -> T:
        return settle(look, done, timeout=seconds, clock=self._clock)

    def _ask(self, submission_id: str, outage: Outage | None = None) -> Job:
        """The job; a dashboard that is silent, as on a busy machine, is asked again."""
        return patiently(lambda: self.get(submission_id), ClusterError, LOST_SECONDS, self._clock, outage)

    def _read(self, row: Row) -> Job:
        """The job of a row; one whose driver died with its head has failed."""
        job = _job(row)
        if job.final or not job.node_id or (ended := self._dead_heads.find(job.node_id)) is None:
            return job
        message = lost_with_head(job.submission_id, UNNOTICED).message
        return replace(job, status="FAILED", message=message, ended_at=ended, lost=True)

    def _upload(self, folder: Path, runtime_env: Mapping[str, object]) -> str:
        return self._send(
            ".zip", package(folder, excludes_of(runtime_env)), f"the working directory {folder}"
        )

    def _send(self, name: str, data: bytes, origin: str) -> str:
        """Give Ray a package, unless it has it; returns its address. A wheel keeps its `name`, as it must."""
        if name.startswith("."):
            name = f"_ray_pkg_{hashlib.sha256(data).hexdigest()[:16]}{name}"
        path = f"/api/packages/gcs/{quote(name)}"
        if self._api.request("GET", path).status != 200:
            reply = self._api.request("PUT", path, body=data, timeout=120)
            if reply.status != 200:
                raise ClusterError(f"Ray did not take {origin}: {last_line(reply.data)}")
        return f"gcs://{name}"


def _job(row: Row) -> Job:
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


def _strings(mapping: Mapping[object, object] | None) -> dict[str, str]:
    return {str(key): str(value) for key, value in (mapping or {}).items()}
