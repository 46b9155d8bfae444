"""The controller's pages: paths, their parameters, and the answers, errors included.

An error is `{"error": {"code": labctl's exit code, "message", "hint", "problems": [...]}}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from http import HTTPStatus

from kueue.writing import objects
from lab.api.queue import QueueEvent
from lab.api.queue_requests import Refusal
from lab.cluster.packing import MAX_PACKAGE_BYTES
from lab.daemons.pages import Answer, Handler, HttpError, Page, Request
from lab.daemons.queue import views
from lab.daemons.queue.controller import Controller
from lab.daemons.queue.facade import QueueFacade
from lab.daemons.queue.setup import BadObjectsError, misfit
from lab.errors import LabError, NotFoundError, RefusedError, StateError, UsageError
from lab.host.serving import Environ, StartResponse

STATUSES: tuple[tuple[type[LabError], HTTPStatus], ...] = (
    (BadObjectsError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (UsageError, HTTPStatus.BAD_REQUEST),
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (RefusedError, HTTPStatus.CONFLICT),
    (StateError, HTTPStatus.SERVICE_UNAVAILABLE),
)
MOST_EVENTS = 1000
MOST_ROWS = 100_000


class Routes:
    """The WSGI application."""

    def __init__(
        self,
        controller: Controller,
        metrics: Callable[[], bytes] | None = None,
        more: Iterable[Page] = (),
    ) -> None:
        """Without `metrics` there is no such page. `more` are pages of others."""
        self._controller = controller
        self._facade = QueueFacade(controller)
        job = r"/workloads/([^/]+)/([^/]+)"
        self._routes: tuple[Page, ...] = (
            ("GET", "/workloads", self._workloads),
            ("GET", job, self._page(lambda asked: views.describe(controller, _key(asked)))),
            ("GET", f"{job}/why", lambda asked: Answer(document=views.why(controller, _key(asked)))),
            ("POST", f"{job}/(cancel|deactivate|activate)", self._order),
            ("GET", "/queues", self._page(lambda _: views.queues(controller))),
            ("GET", "/objects", self._page(lambda _: list(objects(controller.setup)))),
            ("GET", "/events", self._page(self._events)),
            ("GET", "/packages/([^/]+)", self._has_package),
            ("PUT", "/packages/([^/]+)", self._put_package),
            ("POST", "/jobs", lambda asked: Answer(HTTPStatus.CREATED, self._facade.submit(asked.body()))),
            ("POST", "/dry-run", self._dry_run),
            ("POST", "/apply", lambda asked: Answer(document=self._facade.apply(asked.body()))),
            ("POST", "/delete", lambda asked: Answer(document=self._facade.delete(asked.body()))),
        )
        self._routes += tuple(more)
        if metrics is not None:
            self._routes += (("GET", "/metrics", lambda _: Answer(text=metrics())),)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        try:
            answer = self._handler(environ)
        except LabError as error:
            answer = failure(error)
        status, headers, body = answer.parts()
        start_response(status, headers)
        return [body]

    def _handler(self, environ: Environ) -> Answer:
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO") or "/"
        allowed = []
        for known, pattern, handler in self._routes:
            match = re.fullmatch(pattern, path)
            if match is not None and known == method:
                return handler(Request(environ, match.groups()))
            if match is not None:
                allowed.append(known)
        if allowed:
            message = f"{path[:200]} takes {' and '.join(allowed)}, not {method}"
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, message)
        raise NotFoundError(f"there is no page {path[:200]}")

    def _page(self, make: Callable[[Request], object]) -> Handler:
        """The handler of a page that is made while nothing changes."""

        def handler(asked: Request) -> Answer:
            with self._controller.lock:
                return Answer(document=make(asked))

        return handler

    def _workloads(self, asked: Request) -> Answer:
        limit = asked.number("limit", 0, MOST_ROWS)
        status, queue = asked.parameter("status", "unfinished"), asked.parameter("queue")
        with self._controller.lock:
            document = views.workloads(self._controller, status=status, queue=queue, limit=limit)
        return Answer(document=document)

    def _order(self, asked: Request) -> Answer:
        return Answer(document=self._facade.order(_key(asked), asked.parts[2], asked.body()))

    def _events(self, asked: Request) -> list[QueueEvent]:
        since = asked.number("since", 0, 10**18 - 1)
        events = self._controller.events(since, MOST_EVENTS, asked.parameter("workload"))
        return [QueueEvent(event.number, **vars(event.change)) for event in events]

    def _dry_run(self, asked: Request) -> Answer:
        return Answer(document=views.dry_run(self._controller, self._facade.drafted(asked.body())))

    def _has_package(self, asked: Request) -> Answer:
        if not self._controller.packages.has(asked.parts[0]):
            raise NotFoundError(f"there is no package {asked.parts[0]}")
        return Answer(HTTPStatus.NO_CONTENT)

    def _put_package(self, asked: Request) -> Answer:
        self._controller.packages.put(asked.parts[0], asked.body(MAX_PACKAGE_BYTES))
        return Answer(HTTPStatus.CREATED, {"package": asked.parts[0]})


def _key(asked: Request) -> str:
    return "/".join(asked.parts[:2])


def failure(error: LabError) -> Answer:
    status = next((status for kind, status in STATUSES if isinstance(error, kind)), None)
    if isinstance(error, HttpError):
        status = error.status
    problems = None
    if isinstance(error, BadObjectsError):
        problems = tuple(misfit(problem) for problem in error.problems)
    refusal = Refusal(code=error.exit_code, message=error.message, hint=error.hint, problems=problems)
    document = {name: value for name, value in vars(refusal).items() if value is not None}
    return Answer(status or HTTPStatus.INTERNAL_SERVER_ERROR, {"error": document})
