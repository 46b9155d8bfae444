"""`checkpoint-truncate`: the newest checkpoint was written half."""

from __future__ import annotations

from lab.faults import Expected, FaultKind, Scope, Traits
from lab.faults.kinds._checkpoint import CheckpointFault


class CheckpointTruncate(CheckpointFault):
    """Leaves the first half of the largest file."""

    kind = FaultKind(
        name="checkpoint-truncate",
        summary="the newest checkpoint's largest file loses its second half, and a rank is ended",
        scope=Scope.CHECKPOINT,
        revert="the file gets its content back",
        expected=Expected.CHECKPOINT_DAMAGED,
        traits=Traits("had its newest checkpoint cut in half"),
    )

    def damaged(self, data: bytes) -> bytes | None:
        return data[: len(data) // 2]
