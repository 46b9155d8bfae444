"""`kill`: every process of a node is gone at once, as after a power cut."""

from __future__ import annotations

from lab.evidence.receipt.expected import Expected
from lab.faults.base import Fault, FaultKind, Scene, Scope, lasting


class Kill(Fault):
    """SIGKILL to every process of the node. Nothing is flushed, nobody is told."""

    kind = FaultKind(
        name="kill",
        summary="SIGKILL to every process of the node, as after a power cut",
        scope=Scope.NODE,
        parameters=(lasting("how long the node stays down (default: until training goes on elsewhere)"),),
        revert="the node is started again and joins the cluster as a new one",
        expected=Expected.NODE_LOST,
    )

    def inject(self, scene: Scene) -> None:
        """See Fault.inject."""
        scene.runtime.kill(scene.target)

    def revert(self, scene: Scene) -> None:
        """See Fault.revert."""
        scene.runtime.start(scene.target, scene.on_progress)
