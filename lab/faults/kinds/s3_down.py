"""`s3-down`: the object store is gone, and comes back with all it had acknowledged."""

from __future__ import annotations

from lab.faults import Expected, Fault, FaultKind, Scene, Scope, Traits, lasting
from lab.topology import Struck


class S3Down(Fault):
    """SIGKILL to the object store. Connections are refused until it is back."""

    kind = FaultKind(
        name="s3-down",
        summary="the object store is killed and comes back later",
        scope=Scope.STORE,
        parameters=(lasting("how long the store is down", 10.0),),
        revert="the store is started again, with its objects",
        expected=Expected.STORE_AWAY,
        traits=Traits("was killed"),
    )

    def inject(self, scene: Scene) -> Struck | None:
        return scene.runtime.kill(scene.target)
