"""Faults: the catalogue, and what one of one's own is made of.

To add one to the lab: a file in kinds/, a test, and a paragraph in docs/recovery.md.
"""

from lab.evidence.receipt.expected import Expected, Traits
from lab.faults.base import (
    Fault,
    FaultKind,
    Parameter,
    RankProcess,
    Scene,
    Scope,
    lasting,
    rank_on_target,
)
from lab.faults.catalogue import FAULTS, catalogue, effect_of, find_fault, problems
from lab.runtime.base import Feature
from lab.topology import Struck

__all__ = [
    "FAULTS",
    "Expected",
    "Fault",
    "FaultKind",
    "Feature",
    "Parameter",
    "RankProcess",
    "Scene",
    "Scope",
    "Struck",
    "Traits",
    "catalogue",
    "effect_of",
    "find_fault",
    "lasting",
    "problems",
    "rank_on_target",
]
