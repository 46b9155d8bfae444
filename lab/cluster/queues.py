"""The queues' controller over HTTP: jobs that wait for quota, and the objects that say who has which."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import quote, urlencode

from lab.api.light import answer
from lab.api.people import FaultBegun, FaultOrder, FaultSeen
from lab.api.queue import Description, DryRun, Listing, QueueEvent, Why
from lab.api.queue_requests import (
    Accepted,
    ApplyRequest,
    Changed,
    DeleteRequest,
    File,
    JobRequest,
    ObjectName,
    OrderRequest,
    Phase,
)
from lab.api.quotas import QueuesView
from lab.cluster.controller import Controller, refusal
from lab.cluster.packing import package
from lab.cluster.queue_request import QueuedSubmission, owner
from lab.cluster.runtime_env import excludes_of, sendable
from lab.cluster.submission import Submitted
from lab.errors import ClusterError

UPLOAD_SECONDS = 120.0

ANYWHERE = "*"
"""Stands for the namespace where only a name is known."""

RESERVED = "raylab_"
"""Beginning of metadata that only the lab writes."""

WORKLOAD = "raylab_workload"
"""Metadata of a job that comes from the queues: the key of its workload."""

OVER = ("Finished", "Deactivated")
"""Statuses of a workload after which nothing more happens by itself."""

FIRST = "labctl queue apply --example classroom"


class Queues(Controller):
    """The queues of one lab."""

    # Jobs

    def submit(self, job: QueuedSubmission) -> Submitted:
        """Send the working folder, as it is now, and put the job into a queue."""
        folder = job.submission.working_dir
        sendable(job.submission.runtime_env, "through the queues")
        sha = "" if folder is None else self._send(package(folder, excludes_of(job.submission.runtime_env)))
        accepted = self.ask(Accepted, "POST", "/jobs", replace(_request_of(job), package=sha))
        return Submitted(accepted.submission_id, workload=accepted.workload)

    def dry_run(self, job: QueuedSubmission) -> DryRun:
        """What would be if this were submitted now. Nothing is changed."""
        sendable(job.submission.runtime_env, "through the queues")
        return self.ask(DryRun, "POST", "/dry-run", _request_of(job))

    def list(self, *, status: str = "unfinished", queue: str = "", limit: int = 0) -> Listing:
        """Workloads in the order of their queues, and how many there are in all."""
        asked = {"status": status, "queue": queue, "limit": limit or ""}
        return self.ask(Listing, "GET", f"/workloads?{urlencode({k: v for k, v in asked.items() if v})}")

    def describe(self, job: str) -> Description:
        """All that is known of a job, by workload, name or the id of an attempt. Raises NotFoundError."""
        return self.ask(Description, "GET", _path(job))

    def why(self, job: str) -> Why:
        """Why a job waits, who holds what is missing, and when it could start. Raises NotFoundError."""
        return self.ask(Why, "GET", f"{_path(job)}/why")

    def cancel(self, workload: str, message: str = "") -> Phase:
        """End a job, whether it waits or runs. Raises NotFoundError."""
        return self._order(workload, "cancel", message)

    def hold(self, job: str) -> Phase:
        """Put a job on hold: it leaves its queue, and is stopped if it runs; `resume` lets it queue again.

        Raises NotFoundError; RefusedError for a job that is on hold already, or has ended.
        """
        return self._order(job, "deactivate")

    def resume(self, job: str) -> Phase:
        """Let a job queue again that is on hold. Raises NotFoundError; RefusedError unless it is."""
        return self._order(job, "activate")

    def _order(self, job: str, verb: str, message: str = "") -> Phase:
        return self.ask(Phase, "POST", f"{_path(job)}/{verb}", OrderRequest(message=message))

    # In a class: what its gateway breaks

    def break_node(self, job: str, order: FaultOrder) -> FaultBegun:
        """Break a node under a job. Raises NotFoundError; RefusedError with whom it would hit."""
        return self.ask(FaultBegun, "POST", f"{_path(job)}/fault", order)

    def fault(self, job: str) -> FaultSeen:
        """How far that is. Raises NotFoundError once the gateway was started again."""
        return self.ask(FaultSeen, "GET", f"{_path(job)}/fault")

    def start_node(self, service: str) -> None:
        """Begin to start a node that was left down. Raises RefusedError."""
        self.answer_of("POST", f"/nodes/{quote(service, safe='')}/start")

    # Queues

    def queues(self) -> QueuesView:
        """ClusterQueues, LocalQueues and cohorts, with quota and usage."""
        return self.ask(QueuesView, "GET", "/queues")

    def apply(
        self, files: Iterable[tuple[str, str]], namespace: str = "default", *, dry_run: bool = False
    ) -> Changed:
        """Set objects from YAML texts, each with its file's name: all of them or none.

        Raises RefusedFilesError.
        """
        request = ApplyRequest(tuple(File(name, text) for name, text in files), namespace, dry_run)
        return self.ask(Changed, "POST", "/apply", request)

    def delete(self, objects: Iterable[tuple[str, str, str]]) -> Changed:
        """Delete objects, each by kind, namespace and name: all of them or none.

        Raises NotFoundError; RefusedError that names by whom one is used.
        """
        request = DeleteRequest(tuple(ObjectName(*names) for names in objects))
        return self.ask(Changed, "POST", "/delete", request)

    def objects(self) -> tuple[dict[str, object], ...]:
        """Every object, in Kueue's v1beta2."""
        return answer(
            tuple[dict[str, object], ...],
            self.answer_of("GET", "/objects"),
            "the queues' objects",
            ClusterError,
        )

    def events(self, since: int = 0) -> tuple[QueueEvent, ...]:
        """What was decided, with numbers above `since`, oldest first; the controller tells some at a time."""
        events: list[QueueEvent] = []
        while page := self.answer_of("GET", f"/events?since={since}"):
            events += answer(tuple[QueueEvent, ...], page, "the queues' events", ClusterError)
            since = events[-1].number
        return tuple(events)

    def _send(self, data: bytes) -> str:
        """Hand over a package, unless the controller has it already."""
        sha = hashlib.sha256(data).hexdigest()
        path = f"/packages/{sha}"
        if self.send("GET", path).status == 404:
            reply = self.send("PUT", path, data, timeout=UPLOAD_SECONDS)
            if reply.status >= 300:
                raise refusal(reply)
        return sha


def _request_of(job: QueuedSubmission) -> JobRequest:
    submission, request, recipe = job.submission, job.request, job.recipe
    return JobRequest(
        name=request.name,
        queue=request.queue,
        command=tuple(submission.command),
        runtime_env=submission.runtime_env,
        metadata={k: v for k, v in submission.metadata.items() if not k.startswith(RESERVED)},
        num_cpus=submission.num_cpus,
        num_gpus=submission.num_gpus,
        workers=request.pod_set,
        priority_class=request.priority,
        max_time=request.max_time,
        owner=owner(),
        recipe="" if recipe is None else recipe.name,
        ranks="" if recipe is None else recipe.ranks,
        enforce=request.enforce,
        preemption_grace=request.preemption_grace,
        retry=request.retry,
    )


def _path(job: str) -> str:
    space, slash, name = job.partition("/")
    if not slash:
        space, name = ANYWHERE, job
    return f"/workloads/{quote(space, safe='*')}/{quote(name, safe='')}"
