"""The evidence that goes into a receipt, which is `lab.api.receipt.ReceiptDocument`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from lab.api.receipt import Preemption, Steering
from lab.evidence.ledger import CommittedCheckpoint, Event, Files, History
from lab.evidence.receipt.expected import Expected, Traits
from lab.topology import ServiceStatus

NOT_REVERTED = "the fault could not be reverted"
"""Beginning of a problem that says nothing about the evidence: the lab is not whole, the training may be."""


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
