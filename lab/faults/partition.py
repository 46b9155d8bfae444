"""`partition`: a node is cut off the network while it lives, and connected again later."""

from __future__ import annotations

import time
from collections.abc import Callable

from lab.evidence.receipt.expected import Expected
from lab.faults.base import Fault, FaultKind, Scene, Scope, lasting
from lab.faults.wait_rejoin import come_back
from lab.runtime.base import Feature
from lab.topology import State


class Partition(Fault):
    """Takes the node off the network. Its processes go on, alone; the cluster hears nothing of it."""

    kind = FaultKind(
        name="partition",
        summary="the node is cut off the network and goes on alone, then it is connected again",
        scope=Scope.NODE,
        parameters=(lasting("how long the node is cut off", 10.0),),
        revert="the node is connected; if the cluster gave it up meanwhile, it is started again as a new one",
        expected=Expected.NODE_LOST,
        needs=(Feature.NETWORK,),
    )

    signs = (*Fault.signs, State.STARTING, State.RUNNING)

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock, self._sleep = clock, sleep

    def inject(self, scene: Scene) -> None:
        """See Fault.inject."""
        scene.runtime.disconnect(scene.target)

    def revert(self, scene: Scene) -> None:
        """See Fault.revert. The node's zombie workers are gone when this returns."""
        scene.runtime.reconnect(scene.target)
        come_back(scene, self._clock, self._sleep)
