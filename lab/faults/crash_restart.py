"""`crash-restart`: a node crashes and its supervisor starts it again at once."""

from __future__ import annotations

import time
from collections.abc import Callable

from lab.evidence.receipt.expected import Expected
from lab.faults.base import Fault, FaultKind, Scene, Scope
from lab.runtime.base import Runtime
from lab.topology import State

BACK_SECONDS = 60.0
"""How long a crashed node may take to be back by itself; on 2 busy cores it is in the cluster after 16 s."""

STARTING_SECONDS = 180.0
"""The same of one that is starting by then: to end it in the middle of that would gain nothing."""

POLL_SECONDS = 0.5


class CrashRestart(Fault):
    """SIGKILL to every process of the node, which comes back by itself: as a new node, under its old name."""

    kind = FaultKind(
        name="crash-restart",
        summary="every process of the node dies, and its supervisor starts it again at once",
        scope=Scope.NODE,
        parameters=(),
        revert="the node is waited for; one that does not come back by itself is started",
        expected=Expected.NODE_LOST,
    )

    signs = (*Fault.signs, State.STARTING, State.RUNNING)

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock, self._sleep = clock, sleep

    def inject(self, scene: Scene) -> None:
        """See Fault.inject."""
        scene.runtime.crash(scene.target)

    def revert(self, scene: Scene) -> None:
        """See Fault.revert. From then on the node has no supervisor again."""
        begin = self._clock()
        while (state := _state(scene.runtime, scene.target)) is not State.HEALTHY:
            runs = state in (State.STARTING, State.RUNNING)
            if self._clock() - begin >= (STARTING_SECONDS if runs else BACK_SECONDS):
                break
            self._sleep(POLL_SECONDS)
        scene.runtime.start(scene.target, scene.on_progress)


def _state(runtime: Runtime, service: str) -> State | None:
    status = runtime.status().service(service)
    return status.state if status is not None else None
