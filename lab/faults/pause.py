"""`pause`: a node freezes, as under a hung kernel or a stalled hypervisor, and goes on later."""

from __future__ import annotations

import time
from collections.abc import Callable

from lab.evidence.receipt.expected import Expected
from lab.faults.base import Fault, FaultKind, Scene, Scope, lasting
from lab.faults.wait_rejoin import come_back


class Pause(Fault):
    """Freezes every process of the node. It dies for the cluster although none of its processes has ended."""

    kind = FaultKind(
        name="pause",
        summary="every process of the node freezes, and goes on later",
        scope=Scope.NODE,
        parameters=(lasting("how long the node is frozen", 10.0),),
        revert="the node is thawed; if the cluster gave it up meanwhile, it is started again as a new one",
        expected=Expected.NODE_LOST,
    )

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock, self._sleep = clock, sleep

    def inject(self, scene: Scene) -> None:
        """See Fault.inject."""
        scene.runtime.pause(scene.target)

    def revert(self, scene: Scene) -> None:
        """See Fault.revert. The node's zombie workers are gone when this returns."""
        scene.runtime.resume(scene.target)
        come_back(scene, self._clock, self._sleep)
