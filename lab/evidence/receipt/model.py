"""What the receipt is made of: the evidence that goes in, the verdict that comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from lab.evidence.ledger import Event, Files, History, Number
from lab.evidence.receipt.breakdown import Breakdown
from lab.evidence.receipt.expected import Expected
from lab.topology import ServiceStatus

NOT_REVERTED = "the fault could not be reverted"
"""How a problem begins that says nothing about the evidence: the lab is not whole, the training may be."""

SCHEMA = "recovery-receipt/1"
"""Version of the JSON that `Receipt.to_json` gives; schema.json beside this file describes it."""


class Verdict(str, Enum):
    """The outcome of a recovery, the worst first."""

    RESTARTED = "restarted-from-scratch"
    FAILED = "failed"
    NOT_VERIFIED = "not-verified"
    AS_EXPECTED = "as-expected"
    """What the fault's expectation says has happened, and nothing had to resume."""
    RECOVERED = "recovered"


@dataclass(frozen=True)
class FaultRecord:
    """A fault as it was injected. Times are in seconds since the epoch; `at` is taken just before it acts."""

    kind: str
    target: str
    """The service."""
    node_id: str
    """Ray's id of the node that the service was when the fault began."""
    at: float
    reverted_at: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    expected: Expected = Expected.NODE_LOST
    """What is right after such a fault."""
    damaged: tuple[str, ...] = ()
    """URIs of the checkpoints that it damaged."""
    store_refusals: int = 0
    """How often, while it lasted, the store did not let labctl read the ledger."""
    slowest_read: float = 0.0
    """Seconds that labctl's slowest look at the ledger took while it lasted."""


@dataclass(frozen=True)
class NodeRecord:
    """A node as Ray lists it. A service that is started again is a new node under the same name."""

    service: str
    node_id: str
    alive: bool
    started_at: float | None = None
    ended_at: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Evidence:
    """Everything the judgement rests on. What could not be learned is left empty and named in `problems`."""

    submission_id: str
    job_status: str
    """As Ray's Jobs API has it: PENDING, RUNNING, STOPPED, SUCCEEDED, FAILED; empty if unknown."""
    fault: FaultRecord
    job_message: str = ""
    events: tuple[Event, ...] = ()
    nodes: tuple[NodeRecord, ...] = ()
    stored: Mapping[str, Files] = field(default_factory=dict)
    """Checkpoint URI -> manifest, as read from the object store afterwards. One that is missing or empty may
    have been deleted by the script's own CheckpointConfig."""
    services: tuple[ServiceStatus, ...] = ()
    """The lab at the end."""
    resubmitted_as: str = ""
    """The job that went on in place of this one, whose head was lost. Its events are among `events`, as
    further attempts, and `job_status` is its."""
    others: tuple[FaultRecord, ...] = ()
    """Further faults that the job went through, as in a chaos run."""
    control: History | None = None
    """What the ledger says of the same job undisturbed, once that was repeated."""
    problems: tuple[str, ...] = ()
    """What is missing above because it could not be read. Any one rules out the verdict `recovered`, so
    a failed reading that was made good later does not belong here. Those that begin with NOT_REVERTED rule
    out only that the lab is whole."""


@dataclass(frozen=True)
class CheckResult:
    """The answer to one question of the receipt."""

    name: str
    passed: bool
    detail: str
    known: bool = True
    """False where evidence is missing or still to come: not passed, but not known to be wrong either."""


@dataclass(frozen=True)
class Timeline:
    """Seconds after the fault; None for what did not happen."""

    node_dead: float | None = None
    failure_detected: float | None = None
    attempt_started: float | None = None
    restored: float | None = None
    first_report: float | None = None
    node_rejoined: float | None = None


@dataclass(frozen=True)
class CheckpointProof:
    """The checkpoint that training had to resume from. SHA-256 as `lab.evidence.ledger.manifest_sha256` makes
    it."""

    uri: str
    epoch: Number | None
    saved_sha256: str | None
    loaded_sha256: str | None
    """Of what the new attempt did load, whichever checkpoint that was; None when it loaded nothing."""


@dataclass(frozen=True)
class Attempt:
    """One attempt of the run. `nodes` are service names by rank, ids for nodes that Ray does not list."""

    attempt: int
    nodes: tuple[str, ...]
    first_epoch: Number | None
    last_epoch: Number | None
    started_at: float | None
    ended_at: float | None


@dataclass(frozen=True)
class Receipt:
    """The machine-checked record of a recovery. Epochs are values of the metric `epoch_key`."""

    verdict: Verdict
    reason: str
    """One sentence: why this verdict."""
    fault: FaultRecord
    timeline: Timeline
    checkpoint: CheckpointProof | None
    attempts: tuple[Attempt, ...]
    lost_epochs: Number | None
    """Work done twice, in reports; None when not known."""
    submission_id: str
    job_status: str
    checks: tuple[CheckResult, ...]
    run: str | None
    epoch_key: str | None
    problems: tuple[str, ...]
    world_size: tuple[tuple[float, int], ...] = ()
    """Seconds since the epoch, and how many ranks trained from then on."""
    resubmitted_as: str = ""
    """The job that went on in place of this one, whose head was lost."""
    breakdown: Breakdown | None = None
    """Where the seconds until the first new report went; None where nothing had to resume."""
    patches: tuple[str, ...] | None = None
    """What the lab changed of Ray in this run; None when that is not known."""
    control: Mapping[str, Any] | None = None
    """How the same job went undisturbed, and how far both ended the same; None where it was not asked for."""

    @property
    def survived(self) -> bool:
        """Whether what should happen after such a fault did happen."""
        return self.verdict in (Verdict.RECOVERED, Verdict.AS_EXPECTED)

    def to_json(self) -> dict[str, Any]:
        """The receipt as plain dicts and lists, ready for `json.dumps`: the tool's public contract."""
        fault, proof, timeline = self.fault, self.checkpoint, self.timeline
        return {
            "schema": SCHEMA,
            "verdict": self.verdict.value,
            "reason": self.reason,
            "fault": {
                "kind": fault.kind,
                "target": fault.target,
                "at": _ms(fault.at),
                "reverted_at": _ms(fault.reverted_at),
                "parameters": dict(fault.parameters),
            },
            "expected": {"outcome": fault.expected.value, "text": fault.expected.text},
            "timeline": {
                "node_dead": _ms(timeline.node_dead),
                "failure_detected": _ms(timeline.failure_detected),
                "attempt_started": _ms(timeline.attempt_started),
                "restored": _ms(timeline.restored),
                "first_report": _ms(timeline.first_report),
                "node_rejoined": _ms(timeline.node_rejoined),
            },
            "checkpoint": proof
            and {
                "uri": proof.uri,
                "epoch": proof.epoch,
                "saved_sha256": proof.saved_sha256,
                "loaded_sha256": proof.loaded_sha256,
            },
            "attempts": [
                {
                    "attempt": a.attempt,
                    "nodes": list(a.nodes),
                    "first_epoch": a.first_epoch,
                    "last_epoch": a.last_epoch,
                    "started_at": _ms(a.started_at),
                    "ended_at": _ms(a.ended_at),
                }
                for a in self.attempts
            ],
            "world_size": [{"at": _ms(at), "ranks": ranks} for at, ranks in self.world_size],
            "lost_epochs": self.lost_epochs,
            "breakdown": None if self.breakdown is None else self.breakdown.to_json(),
            "job": {
                "submission_id": self.submission_id,
                "status": self.job_status,
                "resubmitted_as": self.resubmitted_as or None,
            },
            "checks": [{"name": c.name, "passed": c.passed, "detail": c.detail} for c in self.checks],
            "run": self.run,
            "epoch_key": self.epoch_key,
            "patches": None if self.patches is None else list(self.patches),
            "problems": list(self.problems),
            "control": None if self.control is None else dict(self.control),
        }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
