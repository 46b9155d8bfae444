"""Waiting until a lab is whole: for a program that did not start it, or has just broken it."""

from __future__ import annotations

import contextlib

from lab.errors import LabError, WaitTimeoutError
from lab.host.clock import MONOTONIC, Clock, settle
from lab.runtime.base import LabView
from lab.runtime.logtail import last_lines, listing
from lab.topology import LabStatus, State

POLL_SECONDS = 1.0
LINES = 10
"""Last lines of each log that the error carries."""


def wait_ready(lab: LabView, timeout: float, *, clock: Clock = MONOTONIC) -> LabStatus:
    """The lab's status once every service is healthy.

    Raises WaitTimeoutError after `timeout` seconds: which services are not, why, and what they wrote last.
    """
    status = settle(
        lab.status, lambda status: status.healthy, timeout=timeout, clock=clock, every=POLL_SECONDS
    )
    if status.healthy:
        return status
    begin = f"lab {status.name} is not ready after {timeout:g} s"
    wrong = [s for s in status.services if s.state is not State.HEALTHY]
    if wrong:
        why = "; ".join(f"{s.service} is {s.state.value} ({s.detail})" for s in wrong)
    else:
        why = "; ".join(status.notes) or "it is not up"
    if not status.up:
        raise WaitTimeoutError(f"{begin}: {why}", lab.advice(["up"], ", or Lab.up, starts it"))
    paragraphs = [f"{begin}: {why}"]
    for service in wrong:
        with contextlib.suppress(LabError):
            lines = last_lines("\n".join(lab.logs(service.service, tail=LINES)), LINES)
            paragraphs.append(f"{service.service}: {listing(lines)}")
    commands = [f"restart {s.service}" for s in wrong]
    raise WaitTimeoutError("\n".join(paragraphs), lab.advice(commands, " or Lab.restart starts it again"))
