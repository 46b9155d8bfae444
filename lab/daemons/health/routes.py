"""The pages of health, which the queues' controller serves beside its own."""

from __future__ import annotations

from collections.abc import Callable

from lab.daemons.health.monitor import HealthMonitor
from lab.daemons.pages import Answer, Handler, Page, Request


def routes(monitor: HealthMonitor) -> tuple[Page, ...]:
    def taking(do: Callable[[bytes], object]) -> Handler:
        def handler(asked: Request) -> Answer:
            return Answer(document=do(asked.body()))

        return handler

    return (
        ("GET", "/health", lambda _: Answer(document=monitor.view())),
        ("POST", "/health/report", taking(monitor.report)),
        ("POST", "/health/run", taking(monitor.run)),
        ("POST", "/health/override", taking(monitor.override)),
        ("POST", "/health/lift", taking(monitor.lift)),
    )
