"""The facade: one lab as an object. docs/python.md shows its use."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lab.cluster import queue_request
from lab.cluster.api import RayApi
from lab.cluster.jobs import Job, Jobs
from lab.cluster.placement import Placement, Ranks, going_on, place, why_waits
from lab.cluster.queue_request import QueuedSubmission, QueueRequest
from lab.cluster.recipes import find_recipe
from lab.cluster.submission import Submission, Submitted, check_command, check_waiting, described
from lab.cluster.summary import LabDetails, details, only_running
from lab.errors import EngineError, LabDownError, LabError, NotFoundError, RefusedError, UsageError
from lab.runtime import leases
from lab.runtime.base import LabView, NodeControl, OnProgress, Runtime, control_of, host_of, ignore_progress
from lab.topology import REGION, Endpoints, GpuPlan, LabSpec, LabStatus

if TYPE_CHECKING:
    from lab.cluster.allocation import TopView, Waiting
    from lab.cluster.checkpoints import CheckpointInfo, JobLedger
    from lab.cluster.explain import Explanation
    from lab.cluster.health import HealthClient
    from lab.cluster.queues import Queues
    from lab.evidence.ledger import History
    from lab.store import Store


class Lab:
    """A lab on one runtime. Opens connections when they are first used."""

    def __init__(
        self,
        runtime: LabView | str | None = None,
        *,
        name: str | None = None,
        api: RayApi | None = None,
        jobs: Jobs | None = None,
        store: Store | None = None,
        queues: Queues | None = None,
    ) -> None:
        """Open the lab `name` on `runtime`: `auto`, `local`, `compose`, `class`, or a LabView with a name.

        What is left out is what the environment says: $RAYLAB_NAME, else `raylab`, and $RAYLAB_RUNTIME, else
        `auto`. `api`, `jobs`, `store` and `queues` are used instead of connections to the lab's own services.
        Nothing is started. Raises UsageError, UnsupportedError, and RefusedError when the lab is up on
        another runtime than asked for.
        """
        self.why = ""
        """Reason for the runtime, where it was not given."""
        self.view: LabView
        """The lab to look at; `control` and `runtime` are the same one where more can be done to it."""
        if isinstance(runtime, LabView):
            if name not in (None, runtime.lab):
                raise UsageError(f"the runtime is that of lab {runtime.lab}, not of {name}", "leave name out")
            self.view = runtime
        else:
            from lab.runtime.select import RUNTIME_VARIABLE, choose, lab_name

            choice = choose(runtime or os.environ.get(RUNTIME_VARIABLE) or "auto", lab_name(name))
            self.view, self.why = choice.view, choice.why
        given = {"api": api, "jobs": jobs, "store": store, "queues": queues}
        self._given = {part: value for part, value in given.items() if value is not None}
        self._ledgers: dict[str, JobLedger] = {}
        self.forget_connections()

    @property
    def name(self) -> str:
        return self.view.lab

    @property
    def control(self) -> NodeControl:
        """The lab to break its services and bring them back. Raises UnsupportedError where neither can be."""
        return control_of(self.view, "break services", "fault-inject")

    @property
    def runtime(self) -> Runtime:
        """The lab to start and stop it. Raises UnsupportedError where only another machine can."""
        return host_of(self.view, "start or stop the lab", "up")

    def up(
        self,
        spec: LabSpec | None = None,
        on_progress: OnProgress = ignore_progress,
        *,
        gpu: str | None = None,
        gpus: Sequence[str] = (),
        share_gpu: bool = False,
        workers: int | None = None,
        cpus_per_worker: int | None = None,
        ports: Mapping[str, int] | None = None,
        gcs_ft: bool = False,
        stock_ray: bool = False,
        queued_only: bool = False,
        classroom: bool = False,
    ) -> LabStatus:
        """Start the lab and return once every service is healthy; one that is up is repaired, not changed.

        Give a `spec`, or single settings: `gpu` is `nvidia`, `amd`, `simulated`, `none` or `auto`; `gpus`
        names GPUs in the workers' order; with `share_gpu` workers may share one; `ports` maps a port's name
        (lab.services.PORT_NAMES) to its number; the last four are as in LabSpec.
        What is left out is as `labctl up` has it (GPUs `auto`, 2 workers, 8 logical CPUs each, free ports),
        or as it is in a lab that is up. `on_progress` gets each step. Raises what Runtime.up raises
        (RefusedError when it is up with other settings), UsageError, GpuError (another lab's GPU, too).
        """
        from lab.runtime.spec import Asked, spec_of, up_already

        asked = Asked(
            gpu=gpu, gpus=tuple(gpus), share_gpu=share_gpu, workers=workers, cpus_per_worker=cpus_per_worker,
            ports=tuple((ports or {}).items()), gcs_ft=gcs_ft, stock_ray=stock_ray, queued_only=queued_only,
            classroom=classroom)  # fmt: skip
        if spec is None:
            spec = spec_of(self.view, asked)
        elif asked != Asked():
            raise UsageError("Lab.up: a spec and single settings", "give one or the other")
        self.forget_connections()
        if not isinstance(self.view, Runtime):
            return up_already(self.view, spec)
        with leases.taken(self.view, spec.gpu):
            return self.view.up(spec, on_progress)

    def up_to_train(self, spec: LabSpec, on_progress: OnProgress = ignore_progress) -> LabStatus:
        """Like `up`, but without a service that no training needs and whose packages are not installed."""
        self.forget_connections()
        runtime = self.runtime
        with leases.taken(runtime, spec.gpu):
            return runtime.up_to_train(spec, on_progress)

    def wait_ready(self, timeout: float = 120.0) -> LabStatus:
        """The lab's status once every service is healthy, as after a fault or when somebody else starts it.

        Raises WaitTimeoutError after `timeout` seconds: what is not healthy, why, and its last log lines.
        """
        from lab.runtime.ready import wait_ready

        return wait_ready(self.view, timeout)

    def details(self) -> LabDetails:
        """Addresses, nodes and resources of a lab that is up. Raises LabDownError, ClusterError."""
        return details(self.status(), self.api.nodes())

    def logs(self, service: str, *, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        """A service's own output, a line at a time; of a job it is `lab.jobs.logs`. See LabView.logs."""
        return self.view.logs(service, follow=follow, tail=tail)

    def down(self, *, volumes: bool = False, on_progress: OnProgress = ignore_progress) -> tuple[str, ...]:
        """Stop the lab; returns the services that were stopped. Stored objects survive unless `volumes`.

        Forgets faults, but for those of stored objects that survive. Raises what Runtime.down raises; refused
        in the lab's own JupyterLab.
        """
        from lab.runtime.stopping import down

        runtime = host_of(self.view, "take the lab down", f"down{' --volumes' if volumes else ''}")
        self.forget_connections()
        return down(runtime, volumes=volumes, on_progress=on_progress)

    def status(self) -> LabStatus:
        """The lab as it is now. Raises StateError when it runs and its state file is damaged or gone."""
        return self.view.status()

    def endpoints(self) -> Endpoints:
        """Addresses and credentials of the lab. Raises LabDownError."""
        return self.view.endpoints()

    def restart(self, service: str, on_progress: OnProgress = ignore_progress) -> None:
        """Stop a service, if it runs, and start it again. Raises what Runtime.stop and .start raise.

        The workers belong to the cluster of their head: with `ray-head` they are restarted too, and every
        running job ends, unless the head's state is in Redis. The first step that `on_progress` gets says so.
        Nothing is stopped where the calling process runs in one of them (RefusedError).
        """
        from lab.runtime.restarting import restart

        restart(host_of(self.view, f"restart {service}", f"restart {service}"), service, on_progress)

    @cached_property
    def api(self) -> RayApi:
        """Ray's HTTP API. Raises LabDownError."""
        endpoints = self.endpoints()
        return RayApi(endpoints.dashboard, endpoints.ray_token, gateway=endpoints.by_gateway)

    @cached_property
    def jobs(self) -> Jobs:
        """The Jobs API. Raises LabDownError."""
        return Jobs(self.api)

    @cached_property
    def store(self) -> Store:
        """The object store. Raises LabDownError, UnsupportedError where it is out of reach."""
        from lab.store import ObjectStore

        endpoints = self.endpoints()
        if not endpoints.s3:
            raise self.view.refusal("read stored objects", "jobs checkpoints")
        return ObjectStore(endpoints.s3, endpoints.credentials, REGION)

    @cached_property
    def queues(self) -> Queues:
        """The queues' controller. Raises LabDownError."""
        from lab.cluster.queues import Queues

        return Queues.of(self.endpoints())

    @cached_property
    def health(self) -> HealthClient:
        """Health of GPUs and nodes. Raises LabDownError."""
        from lab.cluster.controller import Controller
        from lab.cluster.health import HealthClient

        return HealthClient(self.__dict__.get("queues") or Controller.of(self.endpoints()))

    def job(self, submission_id: str) -> Job:
        """A job, also one of an earlier cluster that only its ledger tells of (Job.earlier).
        Raises NotFoundError, LabDownError, ClusterError.
        """
        from lab.cluster.earlier import earlier_job

        try:
            return self.jobs.get(submission_id)
        except NotFoundError:
            with contextlib.suppress(LabError):
                earlier = earlier_job(self.store, submission_id)
                if earlier is not None:
                    return earlier
            raise

    def earlier_jobs(self, known: Sequence[Job]) -> tuple[Job, ...]:
        """The newest jobs that Ray does not know, from their ledgers. Raises StoreError, UnsupportedError."""
        from lab.cluster.earlier import earlier_jobs

        return earlier_jobs(self.store, {job.submission_id for job in known})

    def submit(
        self,
        submission: Submission | None = None,
        *,
        command: str | Sequence[str] = (),
        working_dir: str | Path | None = None,
        num_cpus: float = 0,
        num_gpus: float = 0,
        runtime_env: Mapping[str, object] | str | Path | None = None,
        name: str = "",
        fail_if_infeasible: bool = False,
        queue: QueueRequest | None = None,
    ) -> Submitted:
        """Start a job. One that no node can hold is submitted all the same, and waits; the answer says why.
        With `fail_if_infeasible` it is refused: RefusedError.

        Give a `submission`, or: `command`, as a shell would split it or as a list; `working_dir`, the folder
        that is sent and that it runs in (default: the current one); `num_cpus` and `num_gpus` of the
        entrypoint itself; `runtime_env`, Ray's, or a JSON file with it; `name`, which `labctl jobs` shows.
        With `queue` it waits in that queue until it has its quota; one that names none starts at once. Raises
        UsageError, NotFoundError, RefusedError, ClusterError; nothing is submitted then.
        """
        if submission is None:
            submission = described(command, working_dir, num_cpus, num_gpus, runtime_env, name)
        elif command or working_dir or num_cpus or num_gpus or runtime_env or name:
            raise UsageError("Lab.submit: a submission and a command", "give one or the other")
        if "working_dir" not in submission.runtime_env:  # what is elsewhere cannot be looked at
            check_command(submission.command, submission.working_dir or Path.cwd())
        queue = queue_request.usual(queue, self.view.queue, submission)
        job = submission if queue is None else queue_request.of_command(submission, queue)
        return self._start(job, fail_if_infeasible)

    def submit_recipe(
        self,
        name: str,
        settings: Mapping[str, str],
        *,
        fault_tolerance: str = "",
        num_cpus: float = 0,
        num_gpus: float = 0,
        job_name: str = "",
        submission_id: str = "",
        fail_if_infeasible: bool = False,
        queue: QueueRequest | None = None,
    ) -> Submitted:
        """Start a recipe of workspace/ with these `-p` settings, or let it wait in a queue.
        `fault_tolerance`: a way to survive the loss of a rank; `submission_id`: not in a queue, which has
        names; `fail_if_infeasible`: its ranks must fit now. Raises what `submit` raises, and SetupError.
        """
        recipe = find_recipe(name).tolerating(fault_tolerance)
        if isinstance(self.view, Runtime):  # else the image of the nodes has them
            self.view.provide(recipe.packages)
        queue = queue_request.usual(queue, self.view.queue)
        if queue is None:
            submission = recipe.submission(settings, num_cpus, num_gpus, job_name, submission_id)
            return self._start(submission, fail_if_infeasible, recipe.demand(settings))
        given = queue, len(self.gpu_plan.assignments), num_cpus, num_gpus, job_name
        queued = queue_request.of_recipe(recipe, settings, *given)
        return self._start(queued, fail_if_infeasible, recipe.demand(settings))

    def _start(self, job: Submission | QueuedSubmission, fit: bool, ranks: Ranks | None = None) -> Submitted:
        """Hand a job over: to Ray, to its queue, or to the controller that only watches it."""
        if isinstance(job, QueuedSubmission) and job.request.queue:
            if fit:
                ranks = ranks or job.request.ranks
                check_waiting(why_waits(job.submission.demand, ranks, self.api.nodes()), False)
            return self._enqueue(job)
        with contextlib.suppress(LabDownError):  # then nothing can be submitted anyway
            queue_request.refuse_past_queues(self.view.spec())
        submission = job.submission if isinstance(job, QueuedSubmission) else job
        waits = why_waits(submission.demand, ranks, self.api.nodes())
        check_waiting(waits, not fit)
        if isinstance(job, QueuedSubmission):
            return self._enqueue(job, waits)
        return Submitted(self.jobs.submit(job), waits)

    def _enqueue(self, job: QueuedSubmission, waits: str = "") -> Submitted:
        """Hand a job to the controller. Raises RefusedError for a name whose runs it would resume."""
        with contextlib.suppress(NotFoundError):
            if job.request.name and self.job(job.request.name):
                raise RefusedError(f"there is a job {job.request.name} already", "a name can be used once")
        return replace(self.queues.submit(job), waits=waits)

    def forget_connections(self) -> None:
        """Open connections anew when they are used next: a lab that was down and up may have other ports."""
        for name in ("api", "jobs", "store", "queues", "health", "gpu_plan"):
            self.__dict__.pop(name, None)
        self.__dict__.update(self._given)
        self._ledgers.clear()

    def ledger(self, submission_id: str) -> JobLedger:
        """The ledger of a job, read incrementally: nothing is read twice."""
        from lab.cluster.checkpoints import JobLedger

        if submission_id not in self._ledgers:
            self._ledgers[submission_id] = JobLedger(self.store, submission_id)
        return self._ledgers[submission_id]

    def history(self, submission_id: str) -> History:
        """History of a job so far, from its ledger. Raises StoreError."""
        return self.ledger(submission_id).poll()

    def checkpoints(self, job: str | None = None) -> tuple[CheckpointInfo, ...]:
        """The checkpoints in the object store, of one job or of all."""
        from lab.cluster.checkpoints import list_checkpoints

        if job is not None:
            self.job(job)
        return list_checkpoints(self.store, job)

    def placement(self, submission_id: str) -> Placement:
        """Placement of a job now. Raises NotFoundError."""
        job, history = self.jobs.get(submission_id), self.history(submission_id)
        living = None
        if not job.final and going_on(history) > 1:
            from lab.cluster.allocation import living_ranks, read

            living = living_ranks(read(self.api))
        return place(job, history, self.api.nodes(), living)

    def waiting_jobs(self) -> dict[str, Waiting]:
        """Job -> reason why it, or a part of it, waits now. Raises LabDownError, ClusterError."""
        from lab.cluster.allocation import read, waiting

        return waiting(read(self.api))

    def waiting(self, submission_id: str) -> Waiting | None:
        """Reason why a job, or a part of it, waits now, or None. Raises NotFoundError, ClusterError."""
        self.jobs.get(submission_id)
        return self.waiting_jobs().get(submission_id)

    def why_failed(self, job: Job) -> Explanation | None:
        """Cause of a failed job, if its last error is known, and of one that trained nothing; else None."""
        from lab.cluster import explain, untrained

        if job.status == "SUCCEEDED":
            return untrained.why(lambda: self.history(job.submission_id), lambda: self.store)
        return explain.why_failed(job, self.jobs.logs)

    @cached_property
    def gpu_plan(self) -> GpuPlan:
        """GPUs that the lab was started with. Raises LabDownError."""
        return self.view.spec().gpu

    def top(self) -> TopView:
        """Load of each node, the jobs there with their shares, and who waits.
        Raises LabDownError, ClusterError.
        """
        from lab.cluster.allocation import read_top
        from lab.cluster.health import states

        plan, usage = self.gpu_plan, {}
        with contextlib.suppress(EngineError):
            usage = self.view.usage([node.service for node in self.api.nodes() if node.alive])
        return read_top(self.api, plan, usage, lambda: states(self.health.devices()))

    def running_job(self) -> Job:
        """The one job that runs. Raises RefusedError when there is none, or more than one."""
        return only_running(self.jobs.list())
