"""The ladder: the same training loses a rank under one way of recovery after the other."""

from lab.flows.ladder.picture import picture
from lab.flows.ladder.result import Attempted, Ladder
from lab.flows.ladder.run import LadderRequest, climb, lab_of
from lab.flows.ladder.rungs import FAULTS, RUNGS, Rung
from lab.flows.ladder.training import submit

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
