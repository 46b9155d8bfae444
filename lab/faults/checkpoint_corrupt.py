"""`checkpoint-corrupt`: some bytes of the newest checkpoint are others than were saved."""

from __future__ import annotations

from collections.abc import Sequence

from lab.evidence.receipt.expected import Expected
from lab.faults.base import FaultKind, Scope
from lab.faults.damage import Damage
from lab.store.base import Store, StoredObject

BYTES = 64
"""How many bytes are inverted, in the middle of the file."""


class CheckpointCorrupt(Damage):
    """Inverts bytes of the largest file; its size stays."""

    kind = FaultKind(
        name="checkpoint-corrupt",
        summary="64 bytes of the newest checkpoint's largest file are inverted, and a rank is ended",
        scope=Scope.CHECKPOINT,
        parameters=(),
        revert="the file gets its content back",
        expected=Expected.CHECKPOINT_DAMAGED,
    )

    def damage(self, store: Store, entries: Sequence[StoredObject]) -> None:
        """See Damage.damage."""
        for entry in entries:
            data = bytearray(store.get(entry.key))
            begin = max(0, len(data) // 2 - BYTES // 2)
            data[begin : begin + BYTES] = bytes(255 - byte for byte in data[begin : begin + BYTES])
            store.put(entry.key, bytes(data))
