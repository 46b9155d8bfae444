"""The queues' controller over HTTP: jobs that wait for quota, and the objects that say who has which."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, urlencode

from lab.api.base import plain
from lab.api.light import answer
from lab.api.queue import Description, DryRun, Listing, QueueEvent, Why
from lab.api.queue_requests import (
    Accepted,
    ApplyRequest,
    Changed,
    DeleteRequest,
    File,
    JobRequest,
    Misfit,
    ObjectName,
    OrderRequest,
    Phase,
    Refused,
)
from lab.api.quotas import QueuesView
from lab.cluster import gateway as words
from lab.cluster.queue_request import QueuedSubmission, owner
from lab.cluster.submission import Submitted, package
from lab.errors import ClusterError, LabDownError, LabError, UnsupportedError, UsageError
from lab.host import http
from lab.host.reading import parse_json

if TYPE_CHECKING:
    from urllib3 import PoolManager

M = TypeVar("M")

TIMEOUT_SECONDS = 20.0
"""Deadline of one request: a look ahead over many jobs takes seconds."""

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


def _kinds(of: type[LabError]) -> Iterator[type[LabError]]:
    for kind in of.__subclasses__():
        yield kind
        yield from _kinds(kind)


CODES: Mapping[int, type[LabError]] = {
    kind.exit_code: kind for kind in _kinds(LabError) if kind.__module__ == LabError.__module__
}


class RefusedFilesError(UsageError):
    """Files of objects that were refused, with each thing that is wrong."""

    def __init__(self, message: str, hint: str, problems: Sequence[Misfit]) -> None:
        super().__init__(message, hint)
        self.problems = tuple(problems)


class Queues:
    """The queues of one lab.

    Raises LabDownError where the controller does not answer, and what it refuses as the error that it names.
    """

    def __init__(
        self, url: str, token: str, pool: PoolManager | None = None, *, gateway: bool = False
    ) -> None:
        """`url` is the controller's, empty in a lab that has none; `token` is Ray's; see http.make_pool.

        Of a `gateway` both are what a person of a class has.
        """
        self._url, self._headers, self._pool = url.rstrip("/"), http.bearer(token), pool
        self._gateway = gateway

    # Jobs

    def submit(self, job: QueuedSubmission) -> Submitted:
        """Send the working folder, as it is now, and put the job into a queue."""
        folder = job.submission.working_dir
        sha = "" if folder is None else self._send(package(folder))
        accepted = self.ask(Accepted, "POST", "/jobs", replace(_request_of(job), package=sha))
        return Submitted(accepted.submission_id, workload=accepted.workload)

    def dry_run(self, job: QueuedSubmission) -> DryRun:
        """What would be if this were submitted now. Nothing is changed."""
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
            self._answer("GET", "/objects"),
            "the queues' objects",
            ClusterError,
        )

    def events(self, since: int = 0) -> tuple[QueueEvent, ...]:
        """What was decided, with numbers above `since`, oldest first; the controller tells some at a time."""
        events: list[QueueEvent] = []
        while page := self._answer("GET", f"/events?since={since}"):
            events += answer(tuple[QueueEvent, ...], page, "the queues' events", ClusterError)
            since = events[-1].number
        return tuple(events)

    # HTTP

    def _send(self, data: bytes) -> str:
        """Hand over a package, unless the controller has it already."""
        sha = hashlib.sha256(data).hexdigest()
        path = f"/packages/{sha}"
        if self._request("GET", path).status == 404:
            reply = self._request("PUT", path, data, timeout=UPLOAD_SECONDS)
            if reply.status >= 300:
                raise _error(reply)
        return sha

    def ask(self, model: type[M], method: str, path: str, request: object = None) -> M:
        """The answer of one page of the controller, which has this shape: for clients of its other pages.

        Raises ClusterError where it has another one.
        """
        what = f"the answer of the queues' controller to {path.partition('?')[0]}"
        return answer(model, self._answer(method, path, request), what, ClusterError)

    def _answer(self, method: str, path: str, request: object = None) -> object:
        reply = self._request(method, path, None if request is None else _sent(request))
        if reply.status >= 300:
            raise _error(reply)
        return _parsed(reply)

    def _request(
        self, method: str, path: str, body: bytes | None = None, timeout: float = TIMEOUT_SECONDS
    ) -> http.Reply:
        if not self._url:
            raise UnsupportedError(
                "this lab has no controller of queues", "restart it: `labctl down`, then `labctl up`"
            )
        if self._pool is None:
            self._pool = http.make_pool()
        try:
            reply = http.request(
                method, self._url + path, headers=self._headers, body=body, timeout=timeout, pool=self._pool
            )
        except http.NoAnswerError as error:
            if self._gateway:
                raise LabDownError(*words.silent(self._url, error)) from error
            raise LabDownError(
                f"the queues' controller at {self._url} does not answer ({error})",
                "look at `labctl status` and `labctl logs queue`; `labctl up` starts it again",
            ) from error
        if reply.status in (401, 403) and http.REFUSED_HEADER not in reply.headers:
            if self._gateway:
                raise ClusterError(*words.refused(self._url, reply.status))
            raise ClusterError(
                f"the queues' controller at {self._url} refused the token (HTTP {reply.status})",
                "somebody else started that lab, or its token was replaced: `labctl down`, then `labctl up`",
            )
        return reply


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


def _sent(request: object) -> bytes:
    """A request as JSON, without what it says nothing of."""
    return json.dumps({name: value for name, value in plain(request).items() if value is not None}).encode()


def _path(job: str) -> str:
    space, slash, name = job.partition("/")
    if not slash:
        space, name = ANYWHERE, job
    return f"/workloads/{quote(space, safe='*')}/{quote(name, safe='')}"


def _parsed(reply: http.Reply) -> object:
    try:
        return parse_json(reply.data)
    except ValueError as error:
        text = reply.data[:80].decode(errors="replace")
        raise ClusterError(
            f"what answered is not the queues' controller: {text!r}",
            "another program may hold its port: `labctl status`",
        ) from error


def _error(reply: http.Reply) -> LabError:
    """The error that an answer tells of."""
    document = _parsed(reply)
    try:
        refusal = answer(Refused, document, "the refusal", ClusterError).error
    except ClusterError:
        text = reply.data[:200].decode(errors="replace")
        return ClusterError(f"the queues' controller answered HTTP {reply.status}: {text}")
    if refusal.problems:
        return RefusedFilesError(refusal.message, refusal.hint, refusal.problems)
    return CODES.get(refusal.code, ClusterError)(refusal.message, refusal.hint)
