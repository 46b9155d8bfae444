"""Decisions about requests: whose a job is, and whether this person may do that to it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from lab.cluster.queues import ANYWHERE
from lab.daemons.gateway import views
from lab.daemons.gateway.bodies import TooManyError
from lab.daemons.gateway.faults import Breaker
from lab.daemons.gateway.submission import job_name
from lab.daemons.gateway.upstream import Body, Reply, UnansweredError, Upstream
from lab.daemons.gateway.views import Row
from lab.errors import ClusterError, NotFoundError, RefusedError
from lab.people.policy import TABLE, Action, Role, Whose, allowed, relation
from lab.people.registry import Person, Registry

MOST_JOBS = 100
"""Jobs of a person that have not ended, in a queue: a hundred are a large sweep, and each look of anybody's
at the queues, and each decision of theirs, goes through all that wait. A teacher may have any number."""


class ForbiddenError(RefusedError):
    """This person may not do that."""


@dataclass(frozen=True)
class Asked:
    """A request of a person whose token was right."""

    person: Person
    method: str
    path: str
    query: str = ""
    body: Body = b""
    attempts: bool = False
    """Jobs are Ray's own, the attempts: labctl puts them together itself."""

    @property
    def target(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path


class Access:
    """Finds jobs, and decides by the one table of who may do what."""

    def __init__(
        self, registry: Registry, queue: Upstream, ray: Upstream, breaker: Breaker | None = None
    ) -> None:
        """Without `breaker` there are no faults here."""
        self.registry, self.queue, self.ray, self.breaker = registry, queue, ray, breaker

    def owner(self, namespace: str) -> str:
        """The person whose namespace this is; empty for the lab's own."""
        return namespace if namespace in self.registry.people() else ""

    def owner_of(self, job: Row) -> str:
        """The person whose job of Ray's this is, by its metadata; empty for the lab's own."""
        return self.owner(views.workload_of(job).partition("/")[0])

    def may(self, person: Person, action: Action, owner: str) -> bool:
        """Decide if she may do this to what belongs to `owner`, which is empty for the lab."""
        return allowed(person.role, action, relation(person.name, owner))

    def check(self, person: Person, action: Action, owner: str, what: str) -> None:
        """Refuse what she may not do. Raises ForbiddenError."""
        if not self.may(person, action, owner):
            whose = f"{owner}'s" if owner else "the lab's"
            raise ForbiddenError(f"{what} is {whose}", _hint(action))

    def check_shared(self, person: Person, action: Action) -> None:
        """Refuse an act on what is everybody's. Raises ForbiddenError."""
        if not allowed(person.role, action, Whose.SHARED):
            raise ForbiddenError(f"a {person.role.value} may not {action.value}", _hint(action))

    async def check_submit(self, person: Person, request: Row) -> None:
        """Refuse a job for a queue that is not hers, and one too many.

        Raises ForbiddenError, TooManyError, ClusterError.
        """
        queue = str(request["queue"])
        self.check(person, Action.SUBMIT, self.owner(queue.partition("/")[0]), f"queue {queue}")
        if person.role is Role.TEACHER:
            return
        reply = await self.queue.ask("GET", f"/workloads?limit=1&queue={quote(queue, safe='')}")
        if reply.good and reply.json()["total"] >= MOST_JOBS:  # one that is not there the submission refuses
            raise TooManyError(
                f"{person.name} has {MOST_JOBS} jobs in queue {queue} that have not ended: no more are taken",
                "wait until one has ended, or stop one: `labctl jobs stop JOB`, `ray job stop JOB`",
            )

    async def find(self, person: Person, action: Action, key: str) -> Row | None:
        """The job of the queues that a person means, once she may do this to it; None where there is none.

        `key` is NAMESPACE/NAME, a name, or the id of an attempt. Her own jobs need not be called by the
        beginning of their names, which is hers. Raises ForbiddenError, ClusterError.
        """
        row = await self._described(key)
        space, slash, name = key.rpartition("/")
        if row is None and (not slash or space in (ANYWHERE, person.name)):
            row = await self._described(job_name(person, name) if name else "")
        if row is not None:
            self.check(person, action, self.owner(str(row["namespace"])), "this job")
        return row

    async def get(self, person: Person, action: Action, key: str) -> Row:
        """`find`, of a job that must be there. Raises NotFoundError, too."""
        row = await self.find(person, action, key)
        if row is None:
            raise NotFoundError(f"there is no job {key.removeprefix('*/')!r} in the queues")
        return row

    async def _described(self, key: str) -> Row | None:
        space, _, name = key.rpartition("/")
        if not name:
            return None
        where = f"{quote(space or ANYWHERE, safe='*')}/{quote(name, safe='')}"
        reply = await self.queue.ask("GET", f"/workloads/{where}")
        if reply.status == 404:
            return None
        return dict(good(reply).json())

    async def attempt(self, row: Row) -> Row | None:
        """The latest attempt of a job as Ray knows it; None where it knows none."""
        if not row["submission_id"]:
            return None
        return await self.submission(str(row["submission_id"]))

    async def submission(self, submission_id: str) -> Row | None:
        """A job of Ray's; None where it knows none of this id."""
        reply = await self.ray.ask("GET", job_path(submission_id))
        return None if reply.status == 404 else dict(good(reply).json())


def job_path(name: str, page: str = "") -> str:
    """The path of a job in Ray's API, or of a page below it."""
    return f"/api/jobs/{quote(name, safe='')}{page}"


def workload_path(row: Row, page: str = "") -> str:
    """The path of a job in the queues' API, or of a page below it."""
    return f"/workloads/{quote(str(row['workload']))}{page}"


def good(reply: Reply) -> Reply:
    """The answer, if it is no refusal. Raises ClusterError: UnansweredError where another try may help."""
    if not reply.good:
        kind = UnansweredError if reply.status >= 500 else ClusterError
        raise kind(f"a service of the lab answered HTTP {reply.status}: {reply.text[:300]}")
    return reply


def _hint(action: Action) -> str:
    roles = [role.value for role in Role if TABLE[action][role] - {Whose.OWN}]
    return f"who may: {', '.join(roles)}"
