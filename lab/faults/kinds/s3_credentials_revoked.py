"""`s3-credentials-revoked`: the object store refuses the key of the jobs, and accepts it again later."""

from __future__ import annotations

from lab.faults import Expected, Fault, FaultKind, Scene, Scope, Traits, lasting


class S3CredentialsRevoked(Fault):
    """Disables the training key in the store. labctl uses that key too, and sees nothing meanwhile."""

    kind = FaultKind(
        name="s3-credentials-revoked",
        summary="the object store refuses the training key, as after a key was revoked",
        scope=Scope.STORE,
        parameters=(lasting("how long the key is refused", 10.0),),
        revert="the store accepts the training key again",
        expected=Expected.STORE_AWAY,
        traits=Traits("refused the training key"),
    )

    def inject(self, scene: Scene) -> None:
        scene.runtime.set_training_key(False)

    def revert(self, scene: Scene) -> None:
        scene.start()
        scene.runtime.set_training_key(True)
