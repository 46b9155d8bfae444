"""Ray's Jobs API, as Ray 2.60's clients use it, over the queues: every job goes through its owner's."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from lab.cluster.helpers import is_helper
from lab.cluster.job_logs import NO_LOG, WHOLE, log_path
from lab.daemons.gateway import submission, views
from lab.daemons.gateway.access import Access, Asked, good, job_path, workload_path
from lab.daemons.gateway.upstream import Reply, TooLongError, UnansweredError, document
from lab.daemons.gateway.views import Row
from lab.errors import LabError, NotFoundError, UsageError
from lab.people.policy import Action
from lab.topology import JOB_FINAL

MOST_PACKAGES = 50
"""Names of packages that are remembered of a person; the oldest is forgotten first."""

POLL_SECONDS = 1.0
"""Pause between two looks at a job that waits, while its log is followed."""

PATIENCE_SECONDS = 60.0
"""Time for which Ray or the queues may be silent while a log is followed."""

LOG_BYTES = 4 << 20
"""Size of the largest log that is answered as a whole."""

LOG_GOES_ON = "\n(gateway) the log is too long to show at once: `ray job logs --follow` shows all of it\n"


class RayJobs:
    """The pages of the Jobs API."""

    def __init__(self, access: Access, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._access, self._pause = access, pause
        self._packages: dict[str, dict[str, str]] = {}

    async def version(self, asked: Asked) -> Reply:
        return await self._access.ray.ask("GET", asked.path)

    async def cluster(self, asked: Asked) -> Reply:
        """`GET /api/v0/KIND`: Ray's lists without runtime environments; that of nodes is everybody's."""
        nodes = asked.path == "/api/v0/nodes"
        self._access.check_shared(asked.person, Action.SEE_QUEUES if nodes else Action.READ_CLUSTER)
        reply = await self._access.ray.ask("GET", asked.target)
        return document(views.without_environments(reply.json()), reply.status) if reply.good else reply

    # Packages: named by Ray's clients, kept by the queues under their SHA-256

    async def has_package(self, asked: Asked, name: str) -> Reply:
        """`GET /api/packages/gcs/NAME`: look for a package that this very person sent."""
        sha256 = self._package(asked.person.name, name)
        if sha256 and (await self._access.queue.ask("GET", f"/packages/{sha256}")).good:
            return Reply(200)
        raise NotFoundError(f"there is no package {name}")

    async def put_package(self, asked: Asked, name: str) -> Reply:
        sha256 = hashlib.sha256(asked.body).hexdigest()
        reply = await self._access.queue.ask("PUT", f"/packages/{sha256}", asked.body)
        if not reply.good:
            return _as_text(reply)
        known = self._packages.setdefault(asked.person.name, {})
        known.pop(name, None)
        known[name] = sha256
        for oldest in list(known)[:-MOST_PACKAGES]:
            del known[oldest]
        return Reply(200)

    def _package(self, person: str, name: str) -> str:
        return self._packages.get(person, {}).get(name, "")

    # Jobs

    async def submit(self, asked: Asked) -> Reply:
        package = partial(self._package, asked.person.name)
        request = submission.from_ray(asked.person, submission.body(asked.body), package)
        await self._access.check_submit(asked.person, request)
        reply = await self._access.queue.ask("POST", "/jobs", json.dumps(request).encode())
        if not reply.good:
            return _as_text(reply)
        name = reply.json()["submission_id"]
        return document({"job_id": name, "submission_id": name})

    async def jobs(self, asked: Asked) -> Reply:
        """`GET /api/jobs/`: every job; of those that this person may not read only name, queue and state."""
        access, person = self._access, asked.person
        rows: list[Row] = []
        if not asked.attempts:
            rows = good(await access.queue.ask("GET", "/workloads?status=all")).json()["workloads"]
        rays = good(await access.ray.ask("GET", "/api/jobs/")).json()
        known = [job for job in rays if not is_helper(job)]
        attempts = {job["submission_id"]: job for job in known if job.get("submission_id")}
        shown = []
        queued = {row["workload"] for row in rows}
        for row in rows:
            job = views.details(row, attempts.get(row["submission_id"]))
            shown.append(self._shown(asked, job, access.owner(row["namespace"])))
        for job in known:
            owner = access.owner_of(job)
            listed = job.get("submission_id") or access.may(person, Action.READ, owner)
            if listed and views.workload_of(job) not in queued:
                shown.append(self._shown(asked, job, owner))
        return document(shown)

    async def job(self, asked: Asked, name: str) -> Reply:
        row = await self._find(asked, Action.LIST, name)
        if row is None:
            job = await self._unqueued(asked, Action.LIST, name)
            return document(self._shown(asked, job, self._access.owner_of(job)))
        job = views.details(row, await self._access.attempt(row))
        return document(self._shown(asked, job, self._access.owner(row["namespace"])))

    async def _find(self, asked: Asked, action: Action, name: str) -> Row | None:
        """The job of the queues; None where there is none, or none is meant. Raises as `Access.find`."""
        return None if asked.attempts else await self._access.find(asked.person, action, name)

    def _shown(self, asked: Asked, job: Row, owner: str) -> dict[str, object]:
        """The part of a job that this person may see."""
        if not self._access.may(asked.person, Action.READ, owner):
            return views.closed(job)
        person, environment = self._access.registry.people().get(owner), job.get("runtime_env") or {}
        return {**job, "runtime_env": submission.without_variables(person, environment)}

    async def _unqueued(self, asked: Asked, action: Action, name: str) -> Row:
        """A job that the queues do not know, or not any more. Raises NotFoundError, ForbiddenError."""
        job = await self._access.submission(name)
        if job is None:
            raise NotFoundError(f"Job {name} does not exist")  # Ray's words
        self._access.check(asked.person, action, self._access.owner_of(job), "this job")
        return job

    async def stop(self, asked: Asked, name: str) -> Reply:
        """`POST /api/jobs/ID/stop`: end a job for good, whether it waits or runs."""
        row = await self._access.find(asked.person, Action.STOP, name)
        if row is None:
            await self._unqueued(asked, Action.STOP, name)
            return await self._access.ray.ask("POST", job_path(name, "/stop"), b"")
        order = json.dumps({"message": f"Stopped by {asked.person.name}"}).encode()
        reply = await self._access.queue.ask("POST", workload_path(row, "/cancel"), order)
        if reply.status == 409:  # it has ended already
            return document({"stopped": False})
        return document({"stopped": True}) if reply.good else _as_text(reply)

    async def delete(self, asked: Asked, name: str) -> Reply:
        """`DELETE /api/jobs/ID`: let Ray forget the attempts of a job that has ended."""
        row = await self._access.find(asked.person, Action.DELETE, name)
        if row is None:
            await self._unqueued(asked, Action.DELETE, name)
            return await self._access.ray.ask("DELETE", job_path(name))
        if row["status"] != views.FINISHED:
            raise UsageError(f"job {row['name']} has not ended", "stop it first")
        deleted = False
        for attempt in row["attempts_made"]:
            reply = await self._access.ray.ask("DELETE", job_path(attempt["submission_id"]))
            deleted = deleted or reply.good
        return document({"deleted": deleted})

    async def logs(self, asked: Asked, name: str) -> Reply:
        """`GET /api/jobs/ID/logs`: what the latest attempt has printed so far."""
        row = await self._find(asked, Action.READ, name)
        unqueued = await self._unqueued(asked, Action.READ, name) if row is None else None
        job = unqueued if row is None else await self._access.attempt(row)
        if job is None or not job.get("driver_node_id"):  # no driver yet, or never one
            return document({"logs": ""})
        lines = re.fullmatch(r"lines=(\d{1,9})", asked.query)
        last = int(lines[1]) if lines else WHOLE
        path = log_path(str(job["submission_id"]), str(job["driver_node_id"]), last)
        try:
            reply = await self._access.ray.ask("GET", path, most=LOG_BYTES)
        except TooLongError as error:
            return document({"logs": error.head.decode(errors="replace") + LOG_GOES_ON})
        if reply.good:
            return document({"logs": reply.data.decode(errors="replace")})
        return document({"logs": ""}) if NO_LOG.match(reply.text) else reply

    async def check_tail(self, asked: Asked, name: str) -> None:
        """Refuse a log that this person may not follow. Raises NotFoundError, ForbiddenError."""
        if await self._access.find(asked.person, Action.READ, name) is None:
            await self._unqueued(asked, Action.READ, name)

    async def tail(self, asked: Asked, name: str) -> AsyncIterator[str]:
        """`/api/jobs/ID/logs/tail`: the log of every attempt from now on, until the job has ended.

        Why it waits is said in between. Raises what `check_tail` raises, and ClusterError once Ray or the
        queues have been silent for too long.
        """
        progress, silent = _Progress(), 0.0
        while not progress.over:
            ended = len(progress.ended)
            try:
                async for text in self._more(asked, name, progress):
                    silent = 0.0
                    yield text
                silent = 0.0
            except UnansweredError:
                silent += POLL_SECONDS
                if silent >= PATIENCE_SECONDS:
                    raise
            if not progress.over and len(progress.ended) == ended:
                await self._pause(POLL_SECONDS)

    async def _more(self, asked: Asked, name: str, progress: _Progress) -> AsyncIterator[str]:
        """The next part of a log: the stream of an attempt, or the reason for which there is none."""
        row = await self._access.find(asked.person, Action.READ, name)
        if row is None:
            await self._unqueued(asked, Action.READ, name)
        attempt = name if row is None else str(row["submission_id"])
        if attempt and attempt not in progress.ended and await self._access.submission(attempt) is not None:
            async for text in progress.fresh(attempt, self._access.ray.tail(job_path(attempt, "/logs/tail"))):
                yield text
            job = await self._access.submission(attempt)
            if job is None or job["status"] in JOB_FINAL:
                progress.ended.add(attempt)
                progress.over = row is None
        elif row is None or row["status"] == views.FINISHED:
            progress.over = True
        elif row.get("waits") and row["waits"] != progress.said:
            progress.said = row["waits"]
            yield f"(queue) {progress.said}\n"


class _Progress:
    """The point up to which a log was given."""

    def __init__(self) -> None:
        self.ended: set[str] = set()
        """Attempts that have ended and whose whole log was given."""
        self.over = False
        self.said = ""
        """The reason for waiting that was given last."""
        self._given: dict[str, int] = {}

    async def fresh(self, attempt: str, texts: AsyncIterator[str]) -> AsyncIterator[str]:
        """The part of an attempt's stream that was not given yet; each stream begins with the whole log."""
        at = 0
        async for text in texts:
            at += len(text)
            new = at - self._given.get(attempt, 0)
            if new > 0:
                self._given[attempt] = at
                yield text[-new:]


def _as_text(reply: Reply) -> Reply:
    """A refusal of the queues in the form of Ray's, whose clients print the body."""
    try:
        error = reply.json()["error"]
        text = error["message"] + (f" ({error['hint']})" if error.get("hint") else "")
    except (LabError, KeyError, TypeError):
        text = reply.text
    return Reply(reply.status, text.encode(), "text/plain")
