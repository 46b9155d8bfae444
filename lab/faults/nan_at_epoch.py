"""`nan-at-epoch`: one weight tensor becomes NaN, as after an overflow."""

from __future__ import annotations

from dataclasses import replace

from lab.evidence.receipt.expected import Expected
from lab.faults.at_epoch import EPOCH, ArmedFault
from lab.faults.base import FaultKind, Scope
from lab.faults.rank_kill import RANK


class NanAtEpoch(ArmedFault):
    """A parameter of the model is filled with NaN before the epoch; the script has to notice."""

    kind = FaultKind(
        name="nan-at-epoch",
        summary="a rank's model gets NaN (not a number) as weights before an epoch; the script has to notice",
        scope=Scope.RANK,
        parameters=(replace(EPOCH, low=2), RANK),
        revert="a rank that has not got there is told to forget it",
        expected=Expected.RANK_LOST,
    )
    word = "nan"
    before = 1
