"""`s3-credentials-revoked`: the object store refuses the key of the jobs, and accepts it again later."""

from __future__ import annotations

from lab.evidence.receipt.expected import Expected
from lab.faults.base import Fault, FaultKind, Scene, Scope, lasting


class S3CredentialsRevoked(Fault):
    """Disables the training key in the store. labctl itself uses that key too: it sees nothing meanwhile."""

    kind = FaultKind(
        name="s3-credentials-revoked",
        summary="the object store refuses the training key, as after a key was revoked",
        scope=Scope.STORE,
        parameters=(lasting("how long the key is refused", 10.0),),
        revert="the store accepts the training key again",
        expected=Expected.STORE_AWAY,
    )

    def inject(self, scene: Scene) -> None:
        """See Fault.inject."""
        scene.runtime.set_training_key(False)

    def revert(self, scene: Scene) -> None:
        """See Fault.revert."""
        scene.runtime.start(scene.target, scene.on_progress)
        scene.runtime.set_training_key(True)
