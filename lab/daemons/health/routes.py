"""The pages of health, which the queues' controller serves beside its own."""

from __future__ import annotations

from collections.abc import Callable

from lab.daemons.health.desk import Desk
from lab.daemons.queue.routes import Answer, Handler, Request


def routes(desk: Desk) -> tuple[tuple[str, str, Handler], ...]:
    """Method, path and handler of each."""

    def taking(do: Callable[[bytes], object]) -> Handler:
        def handler(asked: Request) -> Answer:
            return Answer(document=do(asked.body()))

        return handler

    return (
        ("GET", "/health", lambda _: Answer(document=desk.view())),
        ("POST", "/health/report", taking(desk.report)),
        ("POST", "/health/run", taking(desk.run)),
        ("POST", "/health/override", taking(desk.override)),
        ("POST", "/health/lift", taking(desk.lift)),
    )
