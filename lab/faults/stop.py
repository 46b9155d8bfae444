"""`stop`: a node is shut down in order, as by `docker stop` or before maintenance."""

from __future__ import annotations

from lab.evidence.receipt.expected import Expected
from lab.faults.base import Fault, FaultKind, Scene, Scope, lasting

GRACE_SECONDS = 10.0
"""What is left after this is killed; `docker stop` waits as long."""


class Stop(Fault):
    """SIGTERM to the node, which leaves the cluster in order and takes its workers along."""

    kind = FaultKind(
        name="stop",
        summary="the node shuts down in order (SIGTERM), as before maintenance",
        scope=Scope.NODE,
        parameters=(lasting("how long the node stays down (default: until training goes on elsewhere)"),),
        revert="the node is started again and joins the cluster as a new one",
        expected=Expected.NODE_LOST,
    )

    def inject(self, scene: Scene) -> None:
        """See Fault.inject."""
        scene.runtime.stop(scene.target, timeout=GRACE_SECONDS)

    def revert(self, scene: Scene) -> None:
        """See Fault.revert."""
        scene.runtime.start(scene.target, scene.on_progress)
