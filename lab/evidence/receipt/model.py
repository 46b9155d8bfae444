"""The evidence that goes into a receipt, and the verdict that comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from lab.evidence.ledger import Event, Files, History, Number
from lab.evidence.receipt.breakdown import Breakdown
from lab.evidence.receipt.expected import Expected, Traits
from lab.evidence.receipt.survival import Survival
from lab.host.quantities import rounded
from lab.topology import ServiceStatus

NOT_REVERTED = "the fault could not be reverted"
"""Beginning of a problem that says nothing about the evidence: the lab is not whole, the training may be."""

SCHEMA = "recovery-receipt/1"
"""Version of the JSON that `Receipt.to_json` gives; schema.json beside this file describes it."""


class Verdict(str, Enum):
    """The outcome of a recovery, the worst first."""

    RESTARTED = "restarted-from-scratch"
    FAILED = "failed"
    NOT_VERIFIED = "not-verified"
    AS_EXPECTED = "as-expected"
    """The outcome that the fault should have came about, and nothing had to resume."""
    RECOVERED = "recovered"

    @property
    def good(self) -> bool:
        """True if what should happen after such a fault did happen."""
        return self in (Verdict.AS_EXPECTED, Verdict.RECOVERED)


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
    parameters: Mapping[str, Any] = field(default_factory=dict)
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


@dataclass(frozen=True)
class Preemption:
    """A preemption as the queues recorded it; the fault's record has its time and its victim.

    Times are in seconds since the epoch; None for what has not happened, or is not known.
    """

    by: str
    """The workload that it was for, `namespace/name`; empty if unknown."""
    by_queue: str
    """ClusterQueue of that workload."""
    queue: str
    """ClusterQueue of the one that was preempted."""
    reason: str
    """One of Kueue's, such as `InCohortReclamation`."""
    message: str = ""
    gave_way_at: float | None = None
    """Time at which it held no quota any more."""
    by_admitted_at: float | None = None
    admitted_again_at: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, times in milliseconds' precision."""
        return {
            "by": self.by or None,
            "by_queue": self.by_queue or None,
            "queue": self.queue,
            "reason": self.reason,
            "message": self.message,
            "gave_way_at": rounded(self.gave_way_at),
            "by_admitted_at": rounded(self.by_admitted_at),
            "admitted_again_at": rounded(self.admitted_again_at),
        }


@dataclass(frozen=True)
class Steering:
    """A change of health as the controller of the queues recorded it, and what followed from it.

    Times are in seconds since the epoch; None for what has not happened, or is not known.
    """

    state: str
    """WARN or EVICT."""
    message: str
    """The device, the check and what it found."""
    noticed_at: float
    avoided_at: float | None = None
    """Time from which Ray placed nothing new on the node."""
    until: float | None = None
    """Time at which the node took new work again."""
    reset: str = ""
    """Reason for which the attempt was reset, empty if it was not."""
    reset_at: float | None = None
    charged: bool = False
    """True if the reset counted against the limit of retries."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, times in milliseconds' precision."""
        times = {
            name: rounded(getattr(self, name)) for name in ("noticed_at", "avoided_at", "until", "reset_at")
        }
        return {**asdict(self), "reset": self.reset or None, **times}


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
    """SHA-256 of the checkpoint that the new attempt did load; None when it loaded none."""


@dataclass(frozen=True)
class LostWork:
    """Work that was done twice because of the fault."""

    amount: Number
    checkpoint_interval: Number
    """Usual distance of two checkpoints, in the same unit."""
    unit: str
    """`step`, `epoch` or the like; `report` where a report stands for several."""
    unreported: Number = 0
    """Most steps that were done after the last report, and are not part of `amount`."""


@dataclass(frozen=True)
class Attempt:
    """One attempt of the run. `nodes` are service names by rank, ids for nodes that Ray does not list."""

    attempt: int
    nodes: tuple[str, ...]
    first_epoch: Number | None
    last_epoch: Number | None
    started_at: float | None
    ended_at: float | None
    began_with: Number | None = None
    """The first step that it did, by the steps of its optimizer; None where these were not counted."""


@dataclass(frozen=True)
class Receipt:
    """The machine-checked record of a recovery. Epochs are values of the metric `epoch_key`."""

    verdict: Verdict
    reason: str
    """Reason for the verdict, in one sentence."""
    fault: FaultRecord
    timeline: Timeline
    checkpoint: CheckpointProof | None
    attempts: tuple[Attempt, ...]
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
    control: Mapping[str, Any] | None = None
    """Result of the control run and its comparison with this run; None where none was asked for."""

    @property
    def survived(self) -> bool:
        """True if the verdict is a good one."""
        return self.verdict.good

    def to_json(self) -> dict[str, Any]:
        """Return the receipt as plain dicts and lists for `json.dumps`: the tool's public contract."""
        fault = self.fault
        return {
            "schema": SCHEMA,
            "verdict": self.verdict.value,
            "reason": self.reason,
            "fault": {
                "kind": fault.kind,
                "target": fault.target,
                "effect": fault.traits.effect,
                "at": rounded(fault.at),
                "done_at": rounded(fault.done_at),
                "reverted_at": rounded(fault.reverted_at),
                "parameters": dict(fault.parameters),
            },
            "expected": {"outcome": fault.expected.value, "text": fault.expected.text},
            "timeline": {moment: rounded(seconds) for moment, seconds in asdict(self.timeline).items()},
            "checkpoint": self.checkpoint and asdict(self.checkpoint),
            "attempts": [
                asdict(a)
                | {
                    "nodes": list(a.nodes),
                    "started_at": rounded(a.started_at),
                    "ended_at": rounded(a.ended_at),
                }
                for a in self.attempts
            ],
            "world_size": [{"at": rounded(at), "ranks": ranks} for at, ranks in self.world_size],
            "lost_epochs": self.lost_epochs,
            "lost_work": None if self.lost_work is None else asdict(self.lost_work),
            "breakdown": None if self.breakdown is None else self.breakdown.to_json(),
            "job": {
                "submission_id": self.submission_id,
                "status": self.job_status,
                "resubmitted_as": self.resubmitted_as or None,
            },
            "preemption": None if self.preemption is None else self.preemption.to_json(),
            "health": None if self.health is None else self.health.to_json(),
            "survivors": None if self.survival is None else self.survival.to_json(),
            "checks": [
                {"name": c.name, "passed": c.passed, "skipped": c.skipped, "detail": c.detail}
                for c in self.checks
            ],
            "not_asked": {source.value: why for source, why in self.not_asked.items()},
            "run": self.run,
            "epoch_key": self.epoch_key,
            "patches": None if self.patches is None else list(self.patches),
            "problems": list(self.problems),
            "control": None if self.control is None else dict(self.control),
        }
