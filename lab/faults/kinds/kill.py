"""`kill`: every process of a node is gone at once, as after a power cut."""

from __future__ import annotations

from lab.faults import Expected, Fault, FaultKind, Scene, Scope, Traits, lasting
from lab.topology import Struck


class Kill(Fault):
    """SIGKILL to every process of the node. Nothing is flushed, nobody is told."""

    kind = FaultKind(
        name="kill",
        summary="SIGKILL to every process of the node, as after a power cut",
        scope=Scope.NODE,
        parameters=(lasting("how long the node stays down (default: until training goes on elsewhere)"),),
        revert="the node is started again and joins the cluster as a new one",
        expected=Expected.NODE_LOST,
        traits=Traits("was killed", ends_node=True),
        clusters=True,
    )

    def inject(self, scene: Scene) -> Struck | None:
        return scene.runtime.kill(scene.target)
