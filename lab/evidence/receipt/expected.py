"""What is right after a fault: plain data that the faults state and the receipt judges by."""

from __future__ import annotations

from enum import Enum


class Expected(str, Enum):
    """The outcome that a fault should have. The text is for a person."""

    NODE_LOST = "node-lost"
    RANK_LOST = "rank-lost"
    CHECKPOINT_DAMAGED = "checkpoint-damaged"
    STORE_AWAY = "store-away"
    SLOWED = "slowed"
    HEAD_LOST = "head-lost"

    @property
    def text(self) -> str:
        """In one sentence."""
        return TEXTS[self]


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
}
