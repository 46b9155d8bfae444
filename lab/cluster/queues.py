"""The queues' controller over HTTP: jobs that wait for quota, and the objects that say who has which."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from lab.cluster.queue_request import QueuedSubmission, owner
from lab.cluster.submission import Submitted, package
from lab.errors import ClusterError, LabDownError, LabError, UnsupportedError, UsageError
from lab.host import http
from lab.host.reading import parse_json

Document = dict[str, Any]

TIMEOUT_SECONDS = 20.0
"""Deadline of one request: a look ahead over many jobs takes seconds."""

UPLOAD_SECONDS = 120.0

ANYWHERE = "*"
RESERVED = "raylab_"
"""Metadata that the controller writes itself."""

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
    """Files of objects that were refused, with each thing that is wrong: file, line, path, message, hint."""

    def __init__(self, message: str, hint: str, problems: Sequence[Document]) -> None:
        """`problems` are in the order of the files."""
        super().__init__(message, hint)
        self.problems = tuple(problems)


class Queues:
    """The queues of one lab.

    Raises LabDownError where the controller does not answer, and what it refuses as the error that it names.
    """

    def __init__(self, url: str, token: str, pool: Any = None) -> None:
        """`url` is the controller's, empty in a lab that has none; `token` is Ray's; see http.make_pool."""
        self._url, self._headers, self._pool = url.rstrip("/"), http.bearer(token), pool

    # Jobs

    def submit(self, job: QueuedSubmission) -> Submitted:
        """Send the working folder, as it is now, and put the job into a queue."""
        folder = job.submission.working_dir
        sha = "" if folder is None else self._send(package(folder))
        created = self.ask("POST", "/jobs", {**_body(job), "package": sha})
        return Submitted(created["submission_id"], workload=created["workload"])

    def dry_run(self, job: QueuedSubmission) -> Document:
        """What would be if this were submitted now, in the form of `why`. Nothing is changed."""
        return self.ask("POST", "/dry-run", _body(job))

    def list(self, *, status: str = "unfinished", queue: str = "", limit: int = 0) -> Document:
        """Workloads in the order of their queues: `workloads`, and how many there are in all, `total`."""
        asked = {"status": status, "queue": queue, "limit": limit or ""}
        return self.ask("GET", f"/workloads?{urlencode({k: v for k, v in asked.items() if v})}")

    def describe(self, job: str) -> Document:
        """All that is known of a job, by workload, name or the id of an attempt. Raises NotFoundError."""
        return self.ask("GET", _path(job))

    def why(self, job: str) -> Document:
        """Why a job waits, who holds what is missing, and when it could start. Raises NotFoundError."""
        return self.ask("GET", f"{_path(job)}/why")

    def cancel(self, workload: str, message: str = "") -> Document:
        """End a job, whether it waits or runs. Raises NotFoundError."""
        return self._order(workload, "cancel", message)

    def stop(self, job: str) -> Document:
        """Put a job on hold: it leaves its queue, and is stopped if it runs; `resume` lets it queue again.

        Raises NotFoundError; RefusedError for a job that is on hold already, or has ended.
        """
        return self._order(job, "deactivate")

    def resume(self, job: str) -> Document:
        """Let a job queue again that is on hold. Raises as `stop` does."""
        return self._order(job, "activate")

    def _order(self, job: str, verb: str, message: str = "") -> Document:
        return self.ask("POST", f"{_path(job)}/{verb}", {"reason": "", "message": message})

    # Queues

    def queues(self) -> Document:
        """ClusterQueues, LocalQueues and cohorts, with quota and usage."""
        return self.ask("GET", "/queues")

    def apply(
        self, files: Iterable[tuple[str, str]], namespace: str = "default", *, dry_run: bool = False
    ) -> Document:
        """Set objects from YAML texts, each with its file's name: all of them or none.

        Raises RefusedFilesError.
        """
        sent = [{"name": name, "text": text} for name, text in files]
        return self.ask("POST", "/apply", {"files": sent, "namespace": namespace, "dry_run": dry_run})

    def delete(self, objects: Iterable[tuple[str, str, str]]) -> Document:
        """Delete objects, each by kind, namespace and name: all of them or none.

        Raises NotFoundError; RefusedError that names by whom one is used.
        """
        named = [{"kind": kind, "namespace": space, "name": name} for kind, space, name in objects]
        return self.ask("POST", "/delete", {"objects": named})

    def objects(self) -> Sequence[Document]:
        """Every object, in Kueue's v1beta2."""
        return self._items("/objects", "objects")

    def events(self, since: int = 0) -> Sequence[Document]:
        """What was decided, with numbers above `since`, oldest first; the controller tells some at a time."""
        events: list[Document] = []
        while page := self._items(f"/events?since={since}", "events"):
            events += page
            since = max(event["number"] for event in page)
        return events

    # HTTP

    def _items(self, path: str, name: str) -> Sequence[Document]:
        document = self.ask("GET", path)
        return tuple(document.get(name) or document.get("items") or ())

    def _send(self, data: bytes) -> str:
        """Hand over a package, unless the controller has it already."""
        sha = hashlib.sha256(data).hexdigest()
        path = f"/packages/{sha}"
        if self._request("GET", path).status == 404:
            reply = self._request("PUT", path, data, timeout=UPLOAD_SECONDS)
            if reply.status >= 300:
                raise _error(reply)
        return sha

    def ask(self, method: str, path: str, body: Document | None = None) -> Document:
        """The answer of one page of the controller: for clients of its other pages."""
        reply = self._request(method, path, None if body is None else json.dumps(body).encode())
        if reply.status >= 300:
            raise _error(reply)
        document = _parsed(reply)
        return document if isinstance(document, dict) else {"items": document}

    def _request(
        self, method: str, path: str, body: bytes | None = None, timeout: float = TIMEOUT_SECONDS
    ) -> http.Reply:
        if not self._url:
            raise UnsupportedError(
                "this lab has no controller of queues", "start it anew: `labctl down`, then `labctl up`"
            )
        if self._pool is None:
            self._pool = http.make_pool()
        try:
            reply = http.request(
                method, self._url + path, headers=self._headers, body=body, timeout=timeout, pool=self._pool
            )
        except http.NoAnswerError as error:
            raise LabDownError(
                f"the queues' controller at {self._url} does not answer ({error})",
                "look at `labctl status` and `labctl logs queue`; `labctl up` starts it again",
            ) from error
        if reply.status in (401, 403):
            raise ClusterError(
                f"the queues' controller at {self._url} refused the token (HTTP {reply.status})",
                "somebody else started that lab, or its token was replaced: `labctl down`, then `labctl up`",
            )
        return reply


def _body(job: QueuedSubmission) -> Document:
    submission, request, recipe = job.submission, job.request, job.recipe
    grace = request.preemption_grace
    return {
        "name": request.name,
        "queue": request.queue,
        "command": list(submission.command),
        "runtime_env": dict(submission.runtime_env),
        "metadata": {k: v for k, v in submission.metadata.items() if not k.startswith(RESERVED)},
        "num_cpus": submission.num_cpus,
        "num_gpus": submission.num_gpus,
        "workers": request.pod_set,
        "priority_class": request.priority,
        "max_time": request.max_time,
        "owner": owner(),
        "recipe": "" if recipe is None else recipe.name,
        "ranks": "" if recipe is None else recipe.ranks,
        "enforce": request.enforce,
        **({} if grace is None else {"preemption_grace": grace}),
        **({} if request.retry is None else {"retry": request.retry.document}),
    }


def _path(job: str) -> str:
    space, slash, name = job.partition("/")
    if not slash:
        space, name = ANYWHERE, job
    return f"/workloads/{quote(space, safe='*')}/{quote(name, safe='')}"


def _parsed(reply: http.Reply) -> Any:
    try:
        return parse_json(reply.data)
    except ValueError as error:
        text = reply.data[:80].decode(errors="replace")
        raise ClusterError(
            f"what answered is not the queues' controller: {text!r}",
            "another program may hold its port: `labctl services`",
        ) from error


def _error(reply: http.Reply) -> LabError:
    """The error that an answer tells of."""
    try:
        failure = _parsed(reply)["error"]
        message, hint = str(failure["message"]), str(failure.get("hint") or "")
        kind = CODES.get(int(failure.get("code") or 0), ClusterError)
    except (KeyError, TypeError, ValueError, AttributeError):
        text = reply.data[:200].decode(errors="replace")
        return ClusterError(f"the queues' controller answered HTTP {reply.status}: {text}")
    problems = failure.get("problems")
    return RefusedFilesError(message, hint, problems) if problems else kind(message, hint)
