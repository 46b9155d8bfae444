"""`pause`: a node freezes, as under a hung kernel or a stalled hypervisor, and goes on later."""

from __future__ import annotations

from lab.faults import Expected, Fault, FaultKind, Scene, Scope, Traits, lasting
from lab.topology import Struck


class Pause(Fault):
    """Freezes every process of the node. It dies for the cluster although none of its processes has ended."""

    kind = FaultKind(
        name="pause",
        summary="every process of the node freezes, and goes on later",
        scope=Scope.NODE,
        parameters=(lasting("how long the node is frozen", 10.0),),
        revert="the node is thawed; if the cluster gave it up meanwhile, it is started again as a new one",
        expected=Expected.NODE_LOST,
        traits=Traits(
            "was frozen", too_short="the freeze ended before Ray noticed it; nothing had to recover"
        ),
    )

    def inject(self, scene: Scene) -> Struck | None:
        return scene.runtime.pause(scene.target)

    def revert(self, scene: Scene) -> None:
        """Let the node go on. Its zombie workers are gone when this returns."""
        scene.runtime.resume(scene.target)
        self.come_back(scene)
