"""`partition`: a node is cut off the network while it lives, and connected again later."""

from __future__ import annotations

from lab.faults import Expected, Fault, FaultKind, Scene, Scope, Traits, lasting
from lab.runtime.base import Feature
from lab.topology import State, Struck


class Partition(Fault):
    """Takes the node off the network. Its processes go on, alone; the cluster hears nothing of it."""

    kind = FaultKind(
        name="partition",
        summary="the node is cut off from the network and goes on alone, then it is connected again",
        scope=Scope.NODE,
        parameters=(lasting("how long the node is cut off", 10.0),),
        revert="the node is connected; if the cluster gave it up meanwhile, it is started again as a new one",
        expected=Expected.NODE_LOST,
        traits=Traits(
            "was cut off from the network",
            too_short="the network was back before Ray noticed; nothing had to recover",
        ),
        needs=(Feature.NETWORK,),
    )

    signs = (*Fault.signs, State.STARTING, State.RUNNING)

    def inject(self, scene: Scene) -> Struck | None:
        return scene.runtime.disconnect(scene.target)

    def revert(self, scene: Scene) -> None:
        """Connect the node again. Its zombie workers are gone when this returns."""
        scene.runtime.reconnect(scene.target)
        self.come_back(scene)
