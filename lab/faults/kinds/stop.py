"""`stop`: a node is shut down in order, as by `docker stop` or before maintenance."""

from __future__ import annotations

from dataclasses import replace

from lab.faults import Fault, Scene, Traits
from lab.faults.kinds.kill import Kill
from lab.topology import Struck

GRACE_SECONDS = 10.0
"""Time until the processes that are left are killed; `docker stop` waits as long."""


class Stop(Fault):
    """SIGTERM to the node, which leaves the cluster in order and takes its workers along."""

    kind = replace(
        Kill.kind,
        name="stop",
        summary="the node shuts down in order (SIGTERM), as before maintenance",
        traits=Traits("was stopped", ends_node=True),
    )

    def inject(self, scene: Scene) -> Struck | None:
        return scene.runtime.stop(scene.target, timeout=GRACE_SECONDS)
