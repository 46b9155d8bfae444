"""`exception-at-epoch`: the training function of one rank raises."""

from __future__ import annotations

from lab.evidence.receipt.expected import Expected
from lab.faults.at_epoch import EPOCH, ArmedFault
from lab.faults.base import FaultKind, Scope
from lab.faults.rank_kill import RANK


class ExceptionAtEpoch(ArmedFault):
    """A RuntimeError in the user's code, where the epoch would have been reported."""

    kind = FaultKind(
        name="exception-at-epoch",
        summary="a rank's training function raises a RuntimeError instead of reporting an epoch",
        scope=Scope.RANK,
        parameters=(EPOCH, RANK),
        revert="a rank that has not got there is told to forget it",
        expected=Expected.RANK_LOST,
    )
    word = "exception"
    before = 0
