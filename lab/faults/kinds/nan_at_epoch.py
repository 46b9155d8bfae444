"""`nan-at-epoch`: one weight tensor becomes NaN, as after an overflow."""

from __future__ import annotations

from dataclasses import replace

from lab.faults import Traits
from lab.faults.kinds._at_epoch import EPOCH, ArmedFault
from lab.faults.kinds.exception_at_epoch import ExceptionAtEpoch
from lab.faults.kinds.rank_kill import RANK


class NanAtEpoch(ArmedFault):
    """A parameter of the model is filled with NaN before the epoch; the script has to notice."""

    kind = replace(
        ExceptionAtEpoch.kind,
        name="nan-at-epoch",
        summary="a rank's model gets NaN (not a number) as weights before an epoch; the script has to notice",
        parameters=(replace(EPOCH, low=2), RANK),
        traits=Traits("got NaN as weights"),
    )
    word = "nan"
    before = 1
