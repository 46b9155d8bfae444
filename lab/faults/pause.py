"""`pause`: a node freezes, as under a hung kernel or a stalled hypervisor, and goes on later."""

from __future__ import annotations

import time
from collections.abc import Callable

from lab.faults.base import Fault, FaultKind
from lab.runtime.base import Runtime
from lab.topology import State

SETTLE_SECONDS = 4.0
"""How long a thawed node gets to find out that the cluster has given it up (its raylet then ends itself)."""

POLL_SECONDS = 0.5


class Pause(Fault):
    """Freezes every process of the node. It dies for the cluster although none of its processes has ended."""

    kind = FaultKind(
        name="pause",
        summary="every process of the node freezes, and goes on later",
        parameters=("--for TIME: how long the node is frozen (default: 10s)",),
        revert="the node is thawed; if the cluster gave it up meanwhile, it is started again as a new one",
    )
    default_duration = 10.0

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock, self._sleep = clock, sleep

    def inject(self, runtime: Runtime, service: str) -> None:
        """See Fault.inject."""
        runtime.pause(service)

    def revert(self, runtime: Runtime, service: str) -> None:
        """See Fault.revert. The node's zombie workers are gone when this returns."""
        runtime.resume(service)
        deadline = self._clock() + SETTLE_SECONDS
        while self._clock() < deadline:
            status = runtime.status().service(service)
            if status is None or status.state in (State.ABSENT, State.EXITED):
                break
            self._sleep(POLL_SECONDS)
        status = runtime.status().service(service)
        if status is None or status.state is not State.HEALTHY:
            runtime.start(service)
