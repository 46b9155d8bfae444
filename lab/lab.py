"""Lab: one running lab as an object, the parts of the core put together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lab.cluster import Node, RayApi, infeasible, places
from lab.errors import RefusedError, UsageError
from lab.jobs import Job, Jobs
from lab.runtime.base import OnProgress, Runtime, ignore_progress
from lab.submission import Submission, check_command
from lab.topology import (
    DEFAULT_LAB,
    HEAD,
    REGION,
    Endpoints,
    LabSpec,
    LabStatus,
    Progress,
    State,
    check_lab_name,
    is_worker,
)
from lab.workloads import find_workload

if TYPE_CHECKING:
    from lab.checkpoints import CheckpointInfo, JobLedger
    from lab.ledger import History
    from lab.objectstore import ObjectStore


@dataclass(frozen=True)
class Submitted:
    """A job that was handed to Ray. `waits` says why it cannot start as the cluster is, or is empty."""

    submission_id: str
    waits: str = ""


@dataclass(frozen=True)
class Placement:
    """Where a job runs now."""

    submission_id: str
    driver: str
    """Service of the entrypoint, empty while it has none."""
    workers: tuple[tuple[int, str], ...]
    """(rank, service) of the newest attempt of every run that has not finished."""

    @property
    def services(self) -> tuple[str, ...]:
        """Every service that runs a part of the job, ranks first."""
        return tuple(dict.fromkeys([*(service for _, service in self.workers), *filter(None, [self.driver])]))


def open_runtime(kind: str | None, name: str | None) -> Runtime:
    """The runtime of a lab; what is None is what the environment says. Raises what `Lab()` raises."""
    from lab.runtime.select import NAME_VARIABLE, RUNTIME_VARIABLE, choose

    name = name or os.environ.get(NAME_VARIABLE) or DEFAULT_LAB
    check_lab_name(name)
    return choose(kind or os.environ.get(RUNTIME_VARIABLE) or "auto", name).runtime


class Lab:
    """A lab on one runtime. Opens connections when they are first used."""

    def __init__(self, runtime: Runtime | str | None = None, *, name: str | None = None) -> None:
        """The lab `name` on `runtime`: `auto`, `local`, `compose`, or a Runtime, which has a name already.

        What is left out is what the environment says: $RAYLAB_NAME, else `raylab`, and $RAYLAB_RUNTIME, else
        `auto`. Nothing is started. Raises UsageError, UnsupportedError, and RefusedError when the lab is up
        on another runtime than asked for.
        """
        if isinstance(runtime, Runtime):
            if name not in (None, runtime.lab):
                raise UsageError(f"the runtime is that of lab {runtime.lab}, not of {name}", "leave name out")
            self.runtime = runtime
        else:
            self.runtime = open_runtime(runtime, name)
        self._ledgers: dict[str, JobLedger] = {}

    @property
    def name(self) -> str:
        """The lab's name."""
        return self.runtime.lab

    def up(self, spec: LabSpec, on_progress: OnProgress = ignore_progress) -> LabStatus:
        """Start the lab; see Runtime.up."""
        self._forget_connections()
        return self.runtime.up(spec, on_progress)

    def down(self, *, volumes: bool = False, on_progress: OnProgress = ignore_progress) -> tuple[str, ...]:
        """Stop the lab; see Runtime.down."""
        self._forget_connections()
        return self.runtime.down(volumes=volumes, on_progress=on_progress)

    def status(self) -> LabStatus:
        """The lab as it is now."""
        return self.runtime.status()

    def endpoints(self) -> Endpoints:
        """How to reach the lab. Raises LabDownError."""
        return self.runtime.endpoints()

    def restart(self, service: str, on_progress: OnProgress = ignore_progress) -> None:
        """Stop a service, if it runs, and start it again. Raises what Runtime.stop and .start raise.

        The workers belong to the cluster of their head: with `ray-head` they are restarted too, and every
        running job ends. The first step that `on_progress` gets says so.
        """
        status = self.status()
        restarted = [service]
        if service == HEAD and status.up:
            workers = [s.service for s in status.services if is_worker(s.service)]
            restarted += workers
            on_progress(
                Progress(
                    HEAD,
                    State.RUNNING,
                    f"restarting it restarts {', '.join(workers)} too; running jobs end",
                )
            )
        for name in reversed(restarted):
            found = status.service(name)
            if found is not None and found.state not in (State.ABSENT, State.EXITED):
                self.runtime.stop(name)
        for name in restarted:
            self.runtime.start(name, on_progress)

    @cached_property
    def api(self) -> RayApi:
        """Ray's HTTP API. Raises LabDownError."""
        endpoints = self.endpoints()
        return RayApi(endpoints.dashboard, endpoints.ray_token)

    @cached_property
    def jobs(self) -> Jobs:
        """The Jobs API. Raises LabDownError."""
        return Jobs(self.api)

    @cached_property
    def store(self) -> ObjectStore:
        """The object store. Raises LabDownError."""
        from lab.objectstore import ObjectStore

        endpoints = self.endpoints()
        return ObjectStore(endpoints.s3, endpoints.credentials, REGION)

    def submit(self, submission: Submission) -> Submitted:
        """Start a job. One that no node can hold is submitted all the same, and waits; the answer says why.

        Raises UsageError, NotFoundError, ClusterError; nothing is submitted then.
        """
        check_command(submission.command, submission.working_dir or Path.cwd())
        waits = infeasible(submission.demand, self.api.nodes()) or ""
        return Submitted(self.jobs.submit(submission), waits)

    def submit_workload(
        self,
        name: str,
        settings: Mapping[str, str],
        *,
        num_cpus: float = 0,
        num_gpus: float = 0,
        job_name: str = "",
    ) -> Submitted:
        """Start a workload of workspace/ with these `-p` settings. Raises what `submit` raises."""
        workload = find_workload(name)
        metadata = {"raylab_workload": name, **({"job_name": job_name} if job_name else {})}
        submission = Submission(
            command=workload.arguments(settings),
            working_dir=workload.folder,
            num_cpus=num_cpus,
            num_gpus=num_gpus,
            metadata=metadata,
        )
        ranks, each = workload.demand(settings)
        waits = why_ranks_wait(ranks, each, self.api.nodes())
        submitted = self.submit(submission)
        return Submitted(submitted.submission_id, submitted.waits or waits)

    def _forget_connections(self) -> None:
        for name in ("api", "jobs", "store"):
            self.__dict__.pop(name, None)
        self._ledgers.clear()

    def ledger(self, submission_id: str) -> JobLedger:
        """The ledger of a job, one for all who ask: what was read of it once is not read again."""
        from lab.checkpoints import JobLedger

        if submission_id not in self._ledgers:
            self._ledgers[submission_id] = JobLedger(self.store, submission_id)
        return self._ledgers[submission_id]

    def history(self, submission_id: str) -> History:
        """What the ledger says about a job so far. Raises StoreError."""
        return self.ledger(submission_id).poll()

    def checkpoints(self, job: str | None = None) -> tuple[CheckpointInfo, ...]:
        """The checkpoints in the object store, of one job or of all."""
        from lab.checkpoints import list_checkpoints

        if job is not None:
            self.jobs.get(job)
        return list_checkpoints(self.store, job)

    def placement(self, submission_id: str) -> Placement:
        """Where a job runs now. Raises NotFoundError."""
        return place(self.jobs.get(submission_id), self.history(submission_id), self.api.nodes())

    def running_job(self) -> Job:
        """The one job that runs. Raises RefusedError when there is none, or more than one."""
        running = [job for job in self.jobs.list() if not job.final]
        if not running:
            raise RefusedError("no job is running", "start one first: labctl submit digits --detach")
        if len(running) > 1:
            names = ", ".join(job.submission_id for job in running)
            raise RefusedError(f"{len(running)} jobs are running: {names}", "choose one with --job ID")
        return running[0]


def why_ranks_wait(ranks: int, each: Mapping[str, float], nodes: tuple[Node, ...]) -> str:
    """Why a training of `ranks` workers that ask for `each` could not start here; empty if it could."""
    why = infeasible(each, nodes)
    if why:
        return f"{why} (for each rank)"
    fit = places(each, nodes, ranks)
    if fit >= ranks:
        return ""
    asked = " and ".join(f"{amount:g} {resource}" for resource, amount in each.items() if amount > 0)
    return f"only {fit} of {ranks} ranks of {asked} fit on the nodes there are"


def place(job: Job, history: History, nodes: tuple[Node, ...]) -> Placement:
    """Where `job` runs, from its ledger and the cluster's nodes (dead ones included)."""
    services = {node.node_id: node.service for node in nodes}
    driver = services.get(job.node_id, "") if not job.final else ""
    workers: list[tuple[int, str]] = []
    for run in history.runs:
        if run.finished_at is None and run.attempts and not job.final:
            newest = run.attempts[-1]
            if newest.ended_at is None:
                workers += [
                    (rank, services.get(node, node[:8])) for rank, node in sorted(newest.nodes.items())
                ]
    return Placement(job.submission_id, driver, tuple(workers))


__all__ = ["Lab", "Placement", "Submitted", "place", "why_ranks_wait"]
