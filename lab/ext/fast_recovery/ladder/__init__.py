"""The ladder: the same training loses a rank under one way of recovery after the other."""

from lab.ext.fast_recovery.ladder.picture import picture
from lab.ext.fast_recovery.ladder.result import Attempted, Ladder
from lab.ext.fast_recovery.ladder.run import LadderRequest, climb, lab_of
from lab.ext.fast_recovery.ladder.rungs import FAULTS, RUNGS, Rung
from lab.ext.fast_recovery.ladder.training import submit

__all__ = [
    "FAULTS",
    "RUNGS",
    "Attempted",
    "Ladder",
    "LadderRequest",
    "Rung",
    "climb",
    "lab_of",
    "picture",
    "submit",
]
