"""The gateway's pages: paths and methods, and refusals in the form that each kind of client reads."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from urllib.parse import unquote

from lab.api.base import plain
from lab.api.people import Bearer
from lab.daemons.gateway.access import Access, Asked, ForbiddenError
from lab.daemons.gateway.bodies import SlowError, TooLargeError, TooManyError
from lab.daemons.gateway.queue_api import QueuePages
from lab.daemons.gateway.ray_api import RayJobs
from lab.daemons.gateway.upstream import Reply, document
from lab.errors import LabError, NotFoundError, RefusedError, StateError, UsageError
from lab.host.http import REFUSED_HEADER
from lab.people.policy import Action
from lab.people.registry import SERVER

TAIL = re.compile(r"/api/jobs/([^/]+)/logs/tail")
"""The page that is a WebSocket."""

RAY = "/api/"
"""Beginning of the paths of Ray's API; the others are the controller's."""

STATUSES: tuple[tuple[type[LabError], int], ...] = (
    (ForbiddenError, 403),
    (TooLargeError, 413),
    (SlowError, 408),
    (TooManyError, 429),
    (StateError, 503),
    (UsageError, 400),
    (NotFoundError, 404),
    (RefusedError, 409),
)

Handler = Callable[..., Awaitable[Reply]]


class Routes:
    """Answers requests of people."""

    def __init__(self, access: Access, jobs: RayJobs) -> None:
        """`jobs` serves the Jobs API, the log streams included."""
        queues, one = QueuePages(access), r"/workloads/([^/]+)/([^/]+)"

        async def why(asked: Asked, space: str, name: str) -> Reply:
            return await queues.workload(asked, space, name, "/why")

        async def person(asked: Asked) -> Reply:
            return document(plain(Bearer(asked.person.name, asked.person.role.value)))

        async def end_server(asked: Asked, name: str) -> Reply:
            """`POST /people/NAME/end-server`: the hub ends the server whose token is gone."""
            access.check(asked.person, Action.END_SERVER, name, "this JupyterLab")
            if not access.registry.get(name).has_server:
                raise RefusedError(f"no JupyterLab of {name} runs", "JupyterHub starts one when it is opened")
            await asyncio.to_thread(access.registry.take_back, SERVER, name)
            return document({"ended": name})

        self._routes: tuple[tuple[str, str, Handler], ...] = (
            ("GET", "/person", person),
            ("POST", "/people/([^/]+)/end-server", end_server),
            ("GET", "/api/version", jobs.version),
            ("GET", "/api/v0/(?:nodes|tasks|actors|placement_groups)", jobs.cluster),
            ("GET", "/api/packages/gcs/([A-Za-z0-9._-]{1,200})", jobs.has_package),
            ("PUT", "/api/packages/gcs/([A-Za-z0-9._-]{1,200})", jobs.put_package),
            ("GET", "/api/jobs/", jobs.jobs),
            ("POST", "/api/jobs/", jobs.submit),
            ("GET", "/api/jobs/([^/]+)", jobs.job),
            ("DELETE", "/api/jobs/([^/]+)", jobs.delete),
            ("POST", "/api/jobs/([^/]+)/stop", jobs.stop),
            ("GET", "/api/jobs/([^/]+)/logs", jobs.logs),
            ("POST", "/(?:jobs|dry-run)", queues.submit),
            ("GET", "/packages/[0-9a-f]{64}", queues.package),
            ("PUT", "/packages/[0-9a-f]{64}", queues.package),
            ("GET", "/workloads", queues.workloads),
            ("GET", one, queues.workload),
            ("GET", f"{one}/why", why),
            ("POST", f"{one}/(cancel|deactivate|activate)", queues.order),
            ("POST", f"{one}/fault", queues.fault),
            ("GET", f"{one}/fault", queues.fault_seen),
            ("POST", "/nodes/([^/]+)/start", queues.start_node),
            ("GET", "/events", queues.events),
            ("GET", "/(?:queues|objects|health)", queues.see),
            ("POST", "/(?:apply|delete|health/symptom)", queues.change),
        )

    async def answer(self, asked: Asked) -> Reply:
        """The answer to a request, refusals included."""
        try:
            return await self._handled(asked)
        except LabError as error:
            return failure(asked.path, error)

    async def _handled(self, asked: Asked) -> Reply:
        if not asked.target.isascii():
            raise UsageError("the address of the request has letters that are not escaped")
        allowed = []
        for method, pattern, handler in self._routes:
            match = re.fullmatch(pattern, asked.path)
            if match is not None and method == asked.method:
                return await handler(asked, *names(match))
            if match is not None:
                allowed.append(method)
        if allowed:
            return Reply(405, f"{asked.path} takes {' and '.join(allowed)}".encode(), "text/plain")
        raise NotFoundError(f"there is no page {asked.path[:200]} in the gateway of a class")


def names(match: re.Match[str]) -> list[str]:
    """The names in a path, decoded. Raises NotFoundError for those that lead to another page."""
    decoded = [unquote(part) for part in match.groups()]
    for name in decoded:
        if name in (".", "..") or "/" in name or not name.isprintable():
            raise NotFoundError(f"there is nothing called {name[:80]!a}")
    return decoded


def failure(path: str, error: LabError) -> Reply:
    """The answer to a request that was refused: text for Ray's clients, a document for the others."""
    status = next((status for kind, status in STATUSES if isinstance(error, kind)), 502)
    if isinstance(error, StateError):  # the list of people is damaged, and its error quotes from it
        error = StateError("the list of the class cannot be read", "tell your teacher")
    headers = {REFUSED_HEADER: "1"} if status == 403 else {}
    if path.startswith(RAY):
        text = f"{error.message} ({error.hint})" if error.hint else error.message
        return Reply(status, text.encode(), "text/plain", headers)
    said: dict[str, object] = {"code": error.exit_code, "message": error.message, "hint": error.hint}
    reply = document({"error": said}, status)
    return Reply(status, reply.data, reply.kind, headers)
