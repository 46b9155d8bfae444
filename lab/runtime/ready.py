"""Waiting until a lab is whole: for a program that did not start it, or has just broken it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from lab.errors import LabError, WaitTimeoutError
from lab.runtime.base import Runtime
from lab.runtime.logtail import last_lines, listing
from lab.topology import LabStatus, State

POLL_SECONDS = 1.0
LINES = 10
"""Last lines of each log that the error carries."""


def wait_ready(
    runtime: Runtime,
    timeout: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> LabStatus:
    """The lab's status once every service is healthy.

    Raises WaitTimeoutError after `timeout` seconds: which services are not, why, and what they wrote last.
    """
    deadline = clock() + timeout
    while True:
        status = runtime.status()
        if status.healthy:
            return status
        if clock() >= deadline:
            raise _not_ready(runtime, status, timeout)
        sleep(min(POLL_SECONDS, max(0.0, deadline - clock())))


def _not_ready(runtime: Runtime, status: LabStatus, timeout: float) -> WaitTimeoutError:
    begin = f"lab {status.name} is not ready after {timeout:g} s"
    wrong = [s for s in status.services if s.state is not State.HEALTHY]
    inside = runtime.kind == "inside"
    if wrong:
        why = "; ".join(f"{s.service} is {s.state.value} ({s.detail})" for s in wrong)
    else:
        why = "; ".join(status.notes) or "it is not up"
    if not status.up:
        up = f"labctl up --name {status.name}"
        hint = f"on the host: {up}" if inside else f"`{up}`, or Lab.up, starts it"
        return WaitTimeoutError(f"{begin}: {why}", hint)
    told = [f"{begin}: {why}"]
    for service in wrong:
        with contextlib.suppress(LabError):
            lines = last_lines("\n".join(runtime.logs(service.service, tail=LINES)), LINES)
            told.append(f"{service.service}: {listing(lines)}")
    commands = [f"labctl restart {s.service} --name {status.name}" for s in wrong]
    again = ", ".join(f"`{command}`" for command in commands)
    hint = f"on the host: {'; '.join(commands)}" if inside else f"{again} or Lab.restart starts it again"
    return WaitTimeoutError("\n".join(told), hint)
