"""How a node comes back that was cut off while it lived: the cluster may have given it up meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from lab.runtime.base import Runtime
from lab.topology import State

SETTLE_SECONDS = 4.0
"""How long such a node gets to find out that the cluster has given it up (its raylet then ends itself)."""

POLL_SECONDS = 0.5


def come_back(
    runtime: Runtime, service: str, clock: Callable[[], float], sleep: Callable[[float], None]
) -> None:
    """Wait until the node is what it was, or has ended itself and been started again as a new one.

    Raises ServiceError, WaitTimeoutError.
    """
    deadline = clock() + SETTLE_SECONDS
    while clock() < deadline:
        status = runtime.status().service(service)
        if status is None or status.state in (State.ABSENT, State.EXITED):
            break
        sleep(POLL_SECONDS)
    status = runtime.status().service(service)
    if status is None or status.state is not State.HEALTHY:
        runtime.start(service)
