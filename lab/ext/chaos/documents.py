"""What came of a chaos run, as `chaos --json` has it; docs/chaos.md explains it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lab.api.base import Number
from lab.api.receipt import ControlDocument, Described, ReceiptDocument


@dataclass(frozen=True)
class ChaosJob(Described):
    """The job that was disturbed, and its status at the end."""

    submission_id: str
    status: str


@dataclass(frozen=True)
class FaultCounts(Described):
    """Numbers of faults."""

    injected: int
    survived: int
    """Those with the outcome that they should have."""
    skipped: int


@dataclass(frozen=True)
class CheckpointCounts(Described):
    """Checkpoints of the run."""

    committed: int
    lost: tuple[str, ...]
    """URIs of those that are gone or changed, those not counted that training itself deleted."""


@dataclass(frozen=True)
class ChaosStep(Described):
    """One fault of the plan: its receipt, or the reason why it was left out."""

    at: float
    """Seconds after the begin at which it was due."""
    fault: str
    target: str
    """The service."""
    parameters: Mapping[str, Number]
    downtime: float | None
    """Seconds from the fault to the next report of progress."""
    skipped: str | None
    receipt: ReceiptDocument | None


@dataclass(frozen=True, kw_only=True)
class ChaosDocument(Described):
    """What came of a chaos run: `chaos --json`, and in the store. Times are seconds since the epoch."""

    schema: Literal["chaos/1"] = "chaos/1"
    good: bool
    """The job finished, every fault was survived, nothing was lost and the control run agrees."""
    interrupted: bool
    job: ChaosJob
    began: float
    ended: float
    seed: int | None
    faults: FaultCounts
    downtime: float
    """Seconds in all from a fault to the next report."""
    repeated: Number
    """Work done twice in all, in reports."""
    checkpoints: CheckpointCounts
    control: ControlDocument | None
    problems: tuple[str, ...]
    """Errors beside the faults: something could not be read, kept, or compared."""
    steps: tuple[ChaosStep, ...]
