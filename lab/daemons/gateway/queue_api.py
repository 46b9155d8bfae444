"""The API of the queues' controller, with each person's rights."""

from __future__ import annotations

import asyncio
import json

from lab.api.base import plain
from lab.api.people import NOT_YET, FaultBegun, FaultOrder
from lab.daemons import pages
from lab.daemons.gateway import submission, views
from lab.daemons.gateway.access import Access, Asked, good, workload_path
from lab.daemons.gateway.faults import Breaker
from lab.daemons.gateway.upstream import Reply, document
from lab.errors import RefusedError
from lab.people.policy import Action


class QueuePages:
    """The controller's pages."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def submit(self, asked: Asked) -> Reply:
        """`POST /jobs` and `/dry-run`, in this person's name."""
        request = submission.from_queue(asked.person, submission.body(asked.body))
        await self._access.check_submit(asked.person, request)
        return await self._access.queue.ask("POST", asked.path, json.dumps(request).encode())

    async def package(self, asked: Asked) -> Reply:
        body = asked.body if asked.method == "PUT" else None
        return await self._access.queue.ask(asked.method, asked.path, body)

    async def workloads(self, asked: Asked) -> Reply:
        """`GET /workloads`: every job; of those that this person may not read only name, queue and state."""
        reply = await self._access.queue.ask("GET", asked.target)
        if not reply.good:
            return reply
        listing = reply.json()
        rows = [
            row
            if self._access.may(asked.person, Action.READ, self._access.owner(row["namespace"]))
            else views.closed_row(row)
            for row in listing["workloads"]
        ]
        return document({**listing, "workloads": rows})

    async def workload(self, asked: Asked, space: str, name: str, page: str = "") -> Reply:
        row = await self._access.get(asked.person, Action.READ, f"{space}/{name}")
        return good(await self._access.queue.ask("GET", workload_path(row, page)))

    async def order(self, asked: Asked, space: str, name: str, verb: str) -> Reply:
        row = await self._access.get(asked.person, Action.STOP, f"{space}/{name}")
        return await self._access.queue.ask("POST", workload_path(row, f"/{verb}"), asked.body)

    async def fault(self, asked: Asked, space: str, name: str) -> Reply:
        """`POST /workloads/NAMESPACE/NAME/fault`: break a node under it that runs nobody else's job."""
        access, person = self._access, asked.person
        order = pages.body(bytes(asked.body), FaultOrder)
        row = await access.get(person, Action.BREAK, f"{space}/{name}")
        breaker = self._breaker()
        attempt = await access.attempt(row)
        if attempt is None or attempt["status"] != "RUNNING":
            raise RefusedError(f"job {row['name']} does not run", NOT_YET)
        jobs = good(await access.ray.ask("GET", "/api/jobs/")).json()
        owners = {job.get("submission_id"): access.owner_of(job) for job in jobs}
        node = await breaker.kill(
            str(row["submission_id"]),
            lambda job: access.may(person, Action.BREAK, owners.get(job, "")),
            order,
        )
        return document(plain(FaultBegun(node)))

    async def fault_seen(self, asked: Asked, space: str, name: str) -> Reply:
        """`GET` of the same: how far the fault is that was injected into it last."""
        row = await self._access.get(asked.person, Action.READ, f"{space}/{name}")
        attempts = {str(one["submission_id"]) for one in row["attempts_made"]}
        seen = await asyncio.to_thread(self._breaker().seen, attempts)
        return document(plain(seen))

    async def start_node(self, asked: Asked, node: str) -> Reply:
        """`POST /nodes/SERVICE/start`: start a node that was left down, by whom may break that job."""
        breaker = self._breaker()
        job = await self._access.submission(await asyncio.to_thread(breaker.left_by, node))
        owner = "" if job is None else self._access.owner_of(job)
        self._access.check(asked.person, Action.BREAK, owner, f"{node} was left down by a job that")
        breaker.restart(node)  # in no thread of its own: of two at the same time one is refused
        return document({"starts": node})

    def _breaker(self) -> Breaker:
        if self._access.breaker is None:
            raise RefusedError(
                "in this class no fault is injected or undone: its lab runs in containers", "ask your teacher"
            )
        return self._access.breaker

    async def events(self, asked: Asked) -> Reply:
        """`GET /events`: all that was decided; the messages only of jobs that this person may read."""
        self._access.check_shared(asked.person, Action.SEE_QUEUES)
        reply = await self._access.queue.ask("GET", asked.target)
        if not reply.good:
            return reply
        return document([self._event(asked, event) for event in reply.json()])

    def _event(self, asked: Asked, event: dict[str, object]) -> dict[str, object]:
        space, slash, _ = str(event["workload"]).partition("/")
        if not slash or self._access.may(asked.person, Action.READ, self._access.owner(space)):
            return event
        return {**event, "message": ""}  # which may hold what the job printed

    async def see(self, asked: Asked) -> Reply:
        self._access.check_shared(asked.person, Action.SEE_QUEUES)
        return await self._access.queue.ask("GET", asked.target)

    async def change(self, asked: Asked) -> Reply:
        self._access.check_shared(asked.person, Action.CHANGE_QUEUES)
        return await self._access.queue.ask("POST", asked.path, asked.body)
