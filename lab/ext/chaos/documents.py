"""Chaos: a schedule as a person writes it in YAML, every scalar as text, and what came of it as `--json`.

docs/chaos.md explains both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final, Literal

from lab.api.base import Limits, Number
from lab.api.receipt import ControlDocument, Described, ReceiptDocument

CHAOS_SCHEMA: Final = "chaos/1"
"""Version of `ChaosDocument`."""

Duration = Annotated[str, Limits(pattern=r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)(ms|s|m|h|)$")]
Figure = Annotated[str, Limits(pattern=r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$")]
Word = Annotated[str, Limits(min_length=1)]


def written(name: str) -> str:
    """How the file writes the name of a field: `with`, `below-one-worker`."""
    return name.rstrip("_").replace("_", "-")


class _InYaml:
    """A shape without unknown fields, whose names are those of the file."""

    __pydantic_config__: ClassVar[Mapping[str, object]] = {"extra": "forbid", "alias_generator": written}


@dataclass(frozen=True)
class StepForm(_InYaml):
    """One fault at its time."""

    at: Duration
    fault: Word
    target: Word = ""
    share: Figure = "0"
    """Between 0 and 1."""
    with_: Mapping[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True)
class ScheduleForm(_InYaml):
    """The whole file: it has either `faults`, to draw from, or `steps`, to follow.

    `every`, `seed` and `parameters` are for `faults`.
    """

    faults: Annotated[tuple[Word, ...], Limits(min_length=1)] | None = None
    steps: Annotated[tuple[StepForm, ...], Limits(min_length=1)] | None = None
    every: Duration | None = None
    seed: Annotated[str, Limits(pattern="^[0-9]{1,9}$")] | None = None
    limit: Annotated[str, Limits(pattern="^0*[1-9][0-9]{0,8}$")] | None = None
    until: Duration | None = None
    parameters: Mapping[str, Mapping[str, Figure]] = field(default_factory=dict)
    below_one_worker: Annotated[str, Limits(pattern="^(?i:true|false)$")] = "false"


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

    schema: Literal["chaos/1"] = CHAOS_SCHEMA
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
