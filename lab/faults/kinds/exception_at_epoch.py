"""`exception-at-epoch`: the training function of one rank raises."""

from __future__ import annotations

from lab.faults import Expected, FaultKind, Scope, Traits
from lab.faults.kinds._at_epoch import EPOCH, ArmedFault
from lab.faults.kinds.rank_kill import RANK


class ExceptionAtEpoch(ArmedFault):
    """A RuntimeError in the user's code, where the epoch would have been reported."""

    kind = FaultKind(
        name="exception-at-epoch",
        summary="a rank's training function raises a RuntimeError instead of reporting an epoch",
        scope=Scope.RANK,
        parameters=(EPOCH, RANK),
        revert="a rank that has not got there is told to forget it",
        expected=Expected.RANK_LOST,
        traits=Traits("had an exception in its training function"),
    )
    word = "exception"
    before = 0
