"""`checkpoint-delete`: the newest checkpoint is gone from the store."""

from __future__ import annotations

from collections.abc import Sequence

from lab.faults import Expected, FaultKind, Scope, Traits
from lab.faults.kinds._checkpoint import CheckpointFault
from lab.store.base import StoredObject


class CheckpointDelete(CheckpointFault):
    """Deletes every file of it."""

    kind = FaultKind(
        name="checkpoint-delete",
        summary="every file of the newest checkpoint is deleted, and a rank is ended",
        scope=Scope.CHECKPOINT,
        revert="the files are put back",
        expected=Expected.CHECKPOINT_DAMAGED,
        traits=Traits("lost its newest checkpoint"),
    )

    def choose(self, entries: Sequence[StoredObject]) -> Sequence[StoredObject]:
        return entries

    def damaged(self, data: bytes) -> bytes | None:
        return None
