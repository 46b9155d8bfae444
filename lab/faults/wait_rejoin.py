"""How a node comes back that was cut off while it lived: the cluster may have given it up meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from lab.faults.base import Scene
from lab.topology import State

SETTLE_SECONDS = 4.0
"""How long such a node gets to find out that the cluster has given it up (its raylet then ends itself)."""

POLL_SECONDS = 0.5


def come_back(scene: Scene, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
    """Wait until the target is the node it was, or has ended itself and been started again as a new one.

    Raises ServiceError, WaitTimeoutError.
    """
    deadline = clock() + SETTLE_SECONDS
    while clock() < deadline:
        status = scene.runtime.status().service(scene.target)
        if status is None or status.state in (State.ABSENT, State.EXITED):
            break
        sleep(POLL_SECONDS)
    status = scene.runtime.status().service(scene.target)
    if status is None or status.state is not State.HEALTHY:
        scene.runtime.start(scene.target, scene.on_progress)
