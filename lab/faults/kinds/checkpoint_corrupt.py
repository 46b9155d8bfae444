"""`checkpoint-corrupt`: some bytes of the newest checkpoint are others than were saved."""

from __future__ import annotations

from lab.faults import Expected, FaultKind, Scope, Traits
from lab.faults.kinds._checkpoint import CheckpointFault

BYTES = 64
"""Number of bytes that are inverted, in the middle of the file."""


class CheckpointCorrupt(CheckpointFault):
    """Inverts bytes of the largest file; its size stays."""

    kind = FaultKind(
        name="checkpoint-corrupt",
        summary="64 bytes of the newest checkpoint's largest file are inverted, and a rank is ended",
        scope=Scope.CHECKPOINT,
        revert="the file gets its content back",
        expected=Expected.CHECKPOINT_DAMAGED,
        traits=Traits("had its newest checkpoint corrupted"),
    )

    def damaged(self, data: bytes) -> bytes | None:
        begin = max(0, len(data) // 2 - BYTES // 2)
        middle = bytes(255 - byte for byte in data[begin : begin + BYTES])
        return data[:begin] + middle + data[begin + BYTES :]
