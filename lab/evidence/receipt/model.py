"""The evidence that goes into a receipt, and the verdict that comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeVar

from lab.api.base import Plain, plain
from lab.api.receipt import (
    AttemptDocument,
    CheckDocument,
    CheckpointProof,
    ControlDocument,
    ExpectedDocument,
    FaultDocument,
    JobDocument,
    LostWork,
    OtherRun,
    Preemption,
    ReceiptDocument,
    Steering,
    Timeline,
    Verdict,
    WorldSize,
)
from lab.evidence.ledger import CommittedCheckpoint, Event, Files, History, Number
from lab.evidence.receipt.breakdown import Breakdown
from lab.evidence.receipt.expected import Expected, Traits
from lab.evidence.receipt.survival import Survival
from lab.host.quantities import rounded
from lab.topology import ServiceStatus

NOT_REVERTED = "the fault could not be reverted"
"""Beginning of a problem that says nothing about the evidence: the lab is not whole, the training may be."""

MILLISECONDS = 3
"""Decimals of the times of a receipt, in seconds."""

T = TypeVar("T")


class Source(str, Enum):
    """A place beside ledger and object store that evidence comes from."""

    JOBS = "Ray's jobs"
    NODES = "Ray's nodes"
    SERVICES = "the services"


@dataclass(frozen=True)
class FaultRecord:
    """A fault as it was injected. Times are in seconds since the epoch."""

    kind: str
    target: str
    """The service."""
    node_id: str
    """Ray's id of the node that the service was when the fault began."""
    at: float
    """Right before it acted: before the first signal, say."""
    reverted_at: float | None = None
    parameters: Mapping[str, float] = field(default_factory=dict)
    expected: Expected = Expected.NODE_LOST
    """The right outcome of such a fault."""
    traits: Traits = field(default_factory=Traits)
    damaged: tuple[str, ...] = ()
    """URIs of the checkpoints that it damaged."""
    store_refusals: int = 0
    """Number of times, while it lasted, that the store did not let labctl read the ledger."""
    slowest_read: float = 0.0
    """Seconds that labctl's slowest look at the ledger took while it lasted."""
    done_at: float | None = None
    """Right after it had acted: after the last signal, say; None if unknown."""
    pid: int = 0
    """Process id, as its node counts, of the one rank that it hit; 0 where it hit none, or if unknown."""
    run: str = ""
    """The run that it was aimed at, of several in a job; empty if unknown."""


@dataclass(frozen=True)
class NodeRecord:
    """A node as Ray lists it. A service that is started again is a new node under the same name."""

    service: str
    node_id: str
    alive: bool | None
    """None where nobody could ask Ray."""
    started_at: float | None = None
    ended_at: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Evidence:
    """All that the judgement rests on. Fields that could not be learned are empty and named in `problems`."""

    submission_id: str
    job_status: str
    """Status in Ray's Jobs API: PENDING, RUNNING, STOPPED, SUCCEEDED, FAILED; empty if unknown."""
    fault: FaultRecord
    job_message: str = ""
    events: tuple[Event, ...] = ()
    nodes: tuple[NodeRecord, ...] = ()
    stored: Mapping[str, Files] = field(default_factory=dict)
    """Checkpoint URI -> manifest, as read from the object store afterwards. One that is missing or empty may
    have been deleted by the script's own CheckpointConfig."""
    services: tuple[ServiceStatus, ...] = ()
    """State of the lab at the end."""
    resubmitted_as: str = ""
    """The job that took the place of this one, whose head was lost or which was preempted. Its events are
    among `events`, as further attempts, and `job_status` is its status."""
    preemption: Preemption | None = None
    """What the queues recorded, where the fault is a preemption."""
    health: Steering | None = None
    """What the health checks led to, where the fault is one of health."""
    others: tuple[FaultRecord, ...] = ()
    """Further faults that the job went through, as in a chaos run."""
    control: History | None = None
    """The ledger of the control run: the same job, repeated undisturbed."""
    earlier: tuple[CommittedCheckpoint, ...] = ()
    """Checkpoints of earlier jobs that runs of this one were given."""
    not_asked: Mapping[Source, str] = field(default_factory=dict)
    """Sources out of reach by design, as for a cluster of which only the ledger is known -> the reason. It
    takes no verdict from the training: what the ledger alone cannot prove stays unproven."""
    problems: tuple[str, ...] = ()
    """Names of the evidence that could not be read. Any one rules out the verdict `recovered`, so a failed
    read that succeeded later does not belong here. One that begins with NOT_REVERTED only rules out that the
    lab is whole."""


@dataclass(frozen=True)
class CheckResult:
    """The answer to one question of the receipt."""

    name: str
    passed: bool
    detail: str
    known: bool = True
    """False where evidence is missing: not passed, but not known to be wrong either."""
    skipped: bool = False
    """True where nobody could be asked, by design: see Evidence.not_asked. Not passed, not known."""


@dataclass(frozen=True)
class Receipt:
    """The machine-checked record of a recovery. Epochs are values of the metric `epoch_key`."""

    verdict: Verdict
    reason: str
    """Reason for the verdict, in one sentence."""
    fault: FaultRecord
    timeline: Timeline
    checkpoint: CheckpointProof | None
    attempts: tuple[AttemptDocument, ...]
    lost_epochs: Number | None
    """Work done twice, in reports; None if unknown."""
    submission_id: str
    job_status: str
    checks: tuple[CheckResult, ...]
    run: str | None
    epoch_key: str | None
    problems: tuple[str, ...]
    world_size: tuple[tuple[float, int], ...] = ()
    """Seconds since the epoch, and the number of ranks that trained from then on."""
    resubmitted_as: str = ""
    """The job that took the place of this one, whose head was lost or which was preempted."""
    preemption: Preemption | None = None
    survival: Survival | None = None
    """The ranks that went on, and those that came back; None for a training that starts again."""
    health: Steering | None = None
    breakdown: Breakdown | None = None
    """Parts of the time until the first new report; None where nothing had to resume."""
    lost_work: LostWork | None = None
    """`lost_epochs` in the unit of the run; None if unknown."""
    patches: tuple[str, ...] | None = None
    """The lab's patches of Ray in this run; None if unknown."""
    not_asked: Mapping[Source, str] = field(default_factory=dict)
    """As in Evidence."""
    control: ControlDocument | None = None
    """Result of the control run and its comparison with this run; None where none was asked for."""
    others: tuple[OtherRun, ...] = ()
    """The other runs of the job."""

    @property
    def survived(self) -> bool:
        """True if the verdict is a good one."""
        return self.verdict.good

    def document(self) -> ReceiptDocument:
        """Return the receipt as its public contract has it, times in milliseconds' precision."""
        fault = self.fault
        return ReceiptDocument(
            verdict=self.verdict,
            reason=self.reason,
            fault=FaultDocument(
                kind=fault.kind,
                target=fault.target,
                effect=fault.traits.effect,
                at=round(fault.at, MILLISECONDS),
                done_at=rounded(fault.done_at),
                reverted_at=rounded(fault.reverted_at),
                parameters=fault.parameters,
            ),
            expected=ExpectedDocument(fault.expected.value, fault.expected.text),
            timeline=_rounded(self.timeline, *vars(self.timeline)),
            checkpoint=self.checkpoint,
            attempts=tuple(_rounded(attempt, "started_at", "ended_at") for attempt in self.attempts),
            world_size=tuple(WorldSize(round(at, MILLISECONDS), ranks) for at, ranks in self.world_size),
            lost_epochs=self.lost_epochs,
            lost_work=self.lost_work,
            breakdown=None if self.breakdown is None else self.breakdown.stages(),
            job=JobDocument(self.submission_id, self.job_status, self.resubmitted_as or None),
            preemption=None if self.preemption is None else _preemption(self.preemption),
            health=None if self.health is None else _steering(self.health),
            survivors=None if self.survival is None else self.survival.document(),
            checks=tuple(
                CheckDocument(c.name, c.passed, c.detail, skipped=c.skipped, known=c.known)
                for c in self.checks
            ),
            not_asked={source.value: why for source, why in self.not_asked.items()},
            run=self.run,
            epoch_key=self.epoch_key,
            patches=self.patches,
            problems=self.problems,
            control=self.control,
            others=self.others,
        )

    def to_json(self) -> Plain:
        """Return the same as plain data for `json.dumps`."""
        return {**plain(self.document()), "verdict": self.verdict.value}


def _preemption(given: Preemption) -> Preemption:
    named = replace(given, by=given.by or None, by_queue=given.by_queue or None)
    return _rounded(named, "gave_way_at", "by_admitted_at", "admitted_again_at")


def _steering(given: Steering) -> Steering:
    named = replace(given, reset=given.reset or None)
    return _rounded(named, "noticed_at", "avoided_at", "until", "reset_at")


def _rounded(item: T, *times: str) -> T:
    """Return a copy with these fields in milliseconds' precision."""
    return replace(item, **{name: rounded(getattr(item, name)) for name in times})  # type: ignore[type-var]
