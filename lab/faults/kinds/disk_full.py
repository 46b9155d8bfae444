"""`disk-full`: the disk for temporary files of a node is full."""

from __future__ import annotations

from lab.faults import Expected, FaultKind, Scope, Traits
from lab.faults.kinds._exhaust import ExhaustingFault
from lab.runtime.base import Feature


class DiskFull(ExhaustingFault):
    """A file fills the node's TMPDIR: a training that writes its checkpoint there first cannot save it."""

    kind = FaultKind(
        name="disk-full",
        summary="the node's disk for temporary files is full, so that no checkpoint can be written there",
        scope=Scope.NODE,
        revert="the file is deleted, once the rank is gone",
        expected=Expected.RANK_LOST,
        traits=Traits("ran out of space for temporary files"),
        needs=(Feature.SCRATCH_DISK,),
    )
    word = "disk"
    patience = 120.0
    """Nothing happens before the next checkpoint is saved."""
