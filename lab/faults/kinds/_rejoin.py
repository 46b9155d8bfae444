"""The return of a node that was cut off while it lived: the cluster may have given it up meanwhile."""

from __future__ import annotations

from lab.faults import Scene
from lab.host.clock import Clock, settle
from lab.topology import State

SETTLE_SECONDS = 4.0
"""Time that such a node gets to find out that the cluster has given it up (its raylet then ends itself)."""


def come_back(scene: Scene, clock: Clock) -> None:
    """Wait until the target is the node it was, or has ended itself and been started again as a new one.

    Raises ServiceError, WaitTimeoutError.
    """
    gone = (None, State.ABSENT, State.EXITED)
    settle(scene.state, lambda state: state in gone, timeout=SETTLE_SECONDS, clock=clock)
    start_if_down(scene)


def start_if_down(scene: Scene) -> None:
    """Start the target again if it did not survive the fault. Raises ServiceError, WaitTimeoutError."""
    if scene.state() is not State.HEALTHY:
        scene.start()
