"""Outcome and traits of a kind of fault: plain data that faults state and the judge reads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Expected(str, Enum):
    """The outcome that a fault should have. The text is for a person."""

    NODE_LOST = "node-lost"
    RANK_LOST = "rank-lost"
    CHECKPOINT_DAMAGED = "checkpoint-damaged"
    STORE_AWAY = "store-away"
    SLOWED = "slowed"
    HEAD_LOST = "head-lost"
    PREEMPTED = "preempted"
    SURVIVED = "survived"
    """No fault states it: the judge asks for it where the ranks that are left go on (`Case.fault`)."""
    REMEMBERED = "remembered"
    """Likewise, where the state came from a neighbour's memory."""
    SICK = "sick"
    DOUBTED = "doubted"

    @property
    def text(self) -> str:
        """The outcome in one sentence."""
        return TEXTS[self]

    @property
    def resumes(self) -> bool:
        """True if a new attempt has to take over."""
        return self in (
            Expected.NODE_LOST, Expected.RANK_LOST, Expected.CHECKPOINT_DAMAGED, Expected.PREEMPTED,
            Expected.SICK, Expected.REMEMBERED,
        )  # fmt: skip

    @property
    def may_fail(self) -> bool:
        """True if the job may fail of it, so long as it says why."""
        return self in (Expected.STORE_AWAY, Expected.HEAD_LOST)


TEXTS = {
    Expected.NODE_LOST: "training resumes from its newest checkpoint on another node, or a restarted one",
    Expected.RANK_LOST: "training resumes from its newest checkpoint in new processes, on any node",
    Expected.CHECKPOINT_DAMAGED: "training resumes from the newest checkpoint that is intact, and says so",
    Expected.STORE_AWAY: (
        "training waits, or resumes, or fails with an error that names the store; nothing saved is lost"
    ),
    Expected.SLOWED: "training goes on, or resumes; nothing saved is lost",
    Expected.HEAD_LOST: (
        "the cluster comes back; the job goes on, or is submitted again and resumes, or fails and says why; "
        "nothing saved is lost"
    ),
    Expected.REMEMBERED: (
        "training resumes in new processes from the state in a neighbour's memory, newer than its checkpoints"
    ),
    Expected.SURVIVED: "survivors go on; the lost rank comes back and gets its state from one of them",
    Expected.PREEMPTED: (
        "the job gives way to another one, waits for its turn, and resumes from its newest checkpoint"
    ),
    Expected.SICK: (
        "a health check says EVICT, nothing new is placed there, and the job resumes from its newest "
        "checkpoint on another node, without losing a retry"
    ),
    Expected.DOUBTED: (
        "a health check says WARN, and the node is avoided if there is another; training goes on, or resumes"
    ),
}


LOSES_A_RANK = (Expected.NODE_LOST, Expected.RANK_LOST, Expected.CHECKPOINT_DAMAGED, Expected.SLOWED)
"""Outcomes of faults of a node or a rank, in whose place it is right that the others go on."""

HITS_A_NODE = (Expected.NODE_LOST, Expected.RANK_LOST, Expected.SURVIVED, Expected.REMEMBERED)
"""Outcomes of faults that hit only the ranks on their node."""


@dataclass(frozen=True)
class Traits:
    """Properties of a kind of fault beside its outcome. The record of a fault carries them to the judge."""

    effect: str = "was hit"
    """The past tense that follows the target's name, such as `was killed`."""
    ends_node: bool = False
    """True if the node can never be the same one again."""
    too_short: str = ""
    """Detail of the check when Ray noticed nothing: why nothing had to recover."""
    delay: str = ""
    """The parameter with the seconds by which it delays requests to the store; empty: not measured."""
