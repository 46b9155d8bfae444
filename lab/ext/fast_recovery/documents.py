"""The cost of one lost rank under one way of recovery after the other, as a document.

Seconds count from the last step that all ranks took; None for what did not happen, or is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from lab.api.base import Number

LADDER_SCHEMA: Final = "ladder/1"


@dataclass(frozen=True)
class Figures:
    """What one loss cost."""

    detected: float | None
    """Seconds until Ray Train acted on the loss."""
    longest_gap: float | None
    """Longest time between two steps of a rank that was not lost, until all are back."""
    all_back: float | None
    """Seconds until all ranks took a step together again."""
    steps_repeated: Number | None
    """Steps that a rank which was not lost did twice, in the whole training."""
    stored_bytes: Number | None
    """Bytes of all checkpoints saved to the store, in the whole training."""
    sent_bytes: Number | None
    """Bytes that all ranks sent to the memory of neighbours."""
    steps_per_second: float | None
    """Speed in the last seconds before the loss."""


@dataclass(frozen=True)
class RungRun:
    """One rung in one run."""

    run: int
    job: str
    """The submission id; empty where none was submitted."""
    verdict: str | None
    """Of the receipt."""
    measured: Figures | None
    reason: str | None
    """Why nothing was measured, or why the verdict is not good."""
    impossible: bool
    """True where this machine cannot do it at all."""


@dataclass(frozen=True)
class RungDocument:
    """One rung in all runs."""

    rung: str
    summary: str
    median: Figures
    runs: tuple[RungRun, ...]


@dataclass(frozen=True)
class LadderDocument:
    """All rungs, side by side."""

    schema: Literal["ladder/1"]
    fault: str
    runtime: str
    interrupted: bool
    """True where not every rung was climbed."""
    rungs: tuple[RungDocument, ...]
