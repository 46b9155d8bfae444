"""`checkpoint-delete`: the newest checkpoint is gone from the store."""

from __future__ import annotations

from collections.abc import Sequence

from lab.evidence.receipt.expected import Expected
from lab.faults.base import FaultKind, Scope
from lab.faults.damage import Damage
from lab.store.base import Store, StoredObject


class CheckpointDelete(Damage):
    """Deletes every file of it."""

    kind = FaultKind(
        name="checkpoint-delete",
        summary="every file of the newest checkpoint is deleted, and a rank is ended",
        scope=Scope.CHECKPOINT,
        parameters=(),
        revert="the files are put back",
        expected=Expected.CHECKPOINT_DAMAGED,
    )

    def choose(self, entries: Sequence[StoredObject]) -> Sequence[StoredObject]:
        """See Damage.choose."""
        return entries

    def damage(self, store: Store, entries: Sequence[StoredObject]) -> None:
        """See Damage.damage."""
        store.delete(entry.key for entry in entries)
