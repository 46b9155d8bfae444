"""The recovery receipt as a document: in the store, in a file, and as `--json` of what makes one.

Fields with a default are missing in receipts of earlier labs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Final, Literal

from lab.api.base import Number

RECEIPT_SCHEMA: Final = "recovery-receipt/1"
"""Version of the document."""


class Verdict(str, Enum):
    """The outcome of a recovery, the worst first."""

    RESTARTED = "restarted-from-scratch"
    FAILED = "failed"
    NOT_VERIFIED = "not-verified"
    AS_EXPECTED = "as-expected"
    """The outcome that the fault should have came about, and nothing had to resume."""
    RESUMED = "resumed"
    """All but the state, which could not be compared, shows that training went on from its checkpoint."""
    RECOVERED = "recovered"

    @property
    def good(self) -> bool:
        """True if what should happen after such a fault did happen, as far as could be compared."""
        return self in (Verdict.AS_EXPECTED, Verdict.RESUMED, Verdict.RECOVERED)


class Described:
    """A shape whose fields are described by the texts below them, also in its JSON Schema."""

    __pydantic_config__: ClassVar[Mapping[str, bool]] = {"use_attribute_docstrings": True}


@dataclass(frozen=True, kw_only=True)
class FaultDocument(Described):
    """What was done on purpose. Times are in seconds since the epoch."""

    kind: str
    target: str
    """The service."""
    effect: str = ""
    """What it did to the target, such as `was killed`."""
    at: float
    """Right before it acted: before the first signal, say."""
    done_at: float | None = None
    """Right after it had acted."""
    reverted_at: float | None
    parameters: Mapping[str, Number]
    """What the fault was given, with its defaults; units: `labctl fault-inject --list`."""


@dataclass(frozen=True)
class ExpectedDocument(Described):
    """What is right after such a fault."""

    outcome: str
    """One of `lab.evidence.receipt.expected`; a newer labctl may know others."""
    text: str


@dataclass(frozen=True)
class Timeline(Described):
    """Seconds after the fault; None for what did not happen."""

    node_dead: float | None = None
    failure_detected: float | None = None
    attempt_started: float | None = None
    restored: float | None = None
    first_step: float | None = None
    first_report: float | None = None
    node_rejoined: float | None = None


@dataclass(frozen=True)
class CheckpointProof(Described):
    """The checkpoint that training had to resume from. A SHA-256 is that of the compact JSON of the sorted
    [path, SHA-256 of the file] pairs."""

    uri: str
    epoch: Number | None
    saved_sha256: str | None
    loaded_sha256: str | None
    """Of what the new attempt did load; None when it loaded nothing."""


@dataclass(frozen=True)
class AttemptDocument(Described):
    """One attempt of the run."""

    attempt: int
    nodes: tuple[str, ...]
    """Service names by rank; ids for nodes that Ray does not list."""
    first_epoch: Number | None
    last_epoch: Number | None
    started_at: float | None
    ended_at: float | None
    began_with: Number | None = None
    """The first step that it did, by the steps of its optimizer; None where these were not counted."""


@dataclass(frozen=True)
class WorldSize(Described):
    """The number of ranks that trained from a time on, in seconds since the epoch."""

    at: float
    ranks: int


@dataclass(frozen=True)
class LostWork(Described):
    """Work that was done twice because of the fault."""

    amount: Number
    checkpoint_interval: Number
    """Usual distance of two checkpoints, in the same unit."""
    unit: str
    """`step`, `epoch` or the like; `report` where a report stands for several."""
    unreported: Number = 0
    """Most steps that were done after the last report, and are not part of `amount`."""


@dataclass(frozen=True)
class JobDocument(Described):
    """The Ray submission."""

    submission_id: str
    status: str
    resubmitted_as: str | None
    """The job that went on in place of this one, whose head was lost or which was preempted."""


@dataclass(frozen=True)
class Preemption(Described):
    """A preemption as the queues recorded it; the fault's record has its time and its victim.

    Times are in seconds since the epoch; None for what has not happened, or is not known.
    """

    by: str | None
    """The workload that it was for, `namespace/name`; None if unknown."""
    by_queue: str | None
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


@dataclass(frozen=True)
class Steering(Described):
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
    reset: str | None = None
    """Reason for which the attempt was reset, such as `AutopilotNoExecute`; None if it was not."""
    reset_at: float | None = None
    charged: bool = False
    """True if the reset counted against the limit of retries."""


@dataclass(frozen=True)
class SurvivorDocument(Described):
    """A rank that was not lost."""

    rank: int
    longest_gap: float | None
    """The longest time between two of its steps, in seconds."""
    steps_alone: int
    """Steps that it took without the lost ranks."""


@dataclass(frozen=True)
class RejoinedDocument(Described):
    """A rank that was lost and came back."""

    rank: int
    after: float
    """Seconds after the fault."""
    step: int
    """Its first step again."""
    source: str | None
    """The neighbour whose state it was given."""


@dataclass(frozen=True)
class SurvivorsDocument(Described):
    """A training whose survivors go on (torchft): who did, and who came back."""

    longest_gap: float | None
    """The longest time between two steps of a survivor, in seconds; None when one took none."""
    full_strength: float | None
    """Seconds from the fault to the first step of all ranks together."""
    ranks: tuple[SurvivorDocument, ...]
    rejoined: tuple[RejoinedDocument, ...]


CHECKS: Mapping[str, str] = {
    "finished": "job finished",
    "fault": "a real fault",
    "right-checkpoint": "right checkpoint",
    "same-state": "same state",
    "resumed": "resumed, not restarted",
    "little-lost": "little lost",
    "went-on": "went on",
    "survivors-went-on": "survivors went on",
    "lab-whole": "lab whole again",
    "nothing-lost": "nothing saved is lost",
    "moved": "moved",
    "new-processes": "new processes",
    "intact-checkpoint": "newest intact checkpoint",
    "gave-way": "gave way",
    "rejoined": "rejoined",
    "nothing-repeated": "nothing repeated",
    "equal-ranks": "equal ranks",
    "newest-state": "newest state",
    "avoided": "avoided",
    "moved-free": "moved, no retry charged",
}
"""Id of a check -> the words by which a receipt names it. Programs compare ids."""

IDS = {words: name for name, words in CHECKS.items()}


@dataclass(frozen=True)
class CheckDocument(Described):
    """One question and its answer."""

    id: str = field(default="", kw_only=True)
    """Key of CHECKS. In receipts of earlier labs it follows from the name; empty for a foreign name."""
    name: str
    passed: bool
    skipped: bool = field(default=False, kw_only=True)
    """True where nobody could be asked, by design: neither passed nor failed."""
    known: bool = field(default=True, kw_only=True)
    """False where evidence is missing: neither passed nor wrong."""
    detail: str

    def __post_init__(self) -> None:
        """Add the id that earlier labs did not write."""
        object.__setattr__(self, "id", self.id or IDS.get(self.name, ""))


@dataclass(frozen=True)
class DifferenceDocument(Described):
    """A value that two runs do not share."""

    metric: str
    epoch: Number
    relative: Number | None
    """To the larger of both values; None where one of them is no number."""


@dataclass(frozen=True)
class CurvesDocument(Described):
    """The metrics of a job and of its control run, epoch by epoch."""

    key: str
    """The metric that counts the epochs."""
    equal: bool | None
    """Whether they are equal within the tolerance; None where there is nothing to compare."""
    exact: bool
    """True if they are equal bit for bit."""
    tolerance: float
    """The greatest relative difference that counts as equal."""
    detail: str
    metrics: Mapping[str, tuple[tuple[Number, Number | None, Number | None], ...]]
    """Metric -> (epoch, value of the job, value of the control run); None for what is no number."""
    first: DifferenceDocument | None = None
    """The first difference beyond the tolerance."""


@dataclass(frozen=True)
class ControlDocument(Described):
    """The same job undisturbed, and how far both ended the same."""

    submission_id: str
    seconds: float
    weights: Literal["equal", "different", "unknown"]
    detail: str
    curves: CurvesDocument


@dataclass(frozen=True)
class OtherRun(Described):
    """A run of the job that the fault was not aimed at."""

    run: str
    verdict: Verdict | None
    """None for one that the fault did not hit."""
    reason: str


@dataclass(frozen=True, kw_only=True)
class ReceiptDocument(Described):
    """Whether a training job recovered from a fault, and the evidence.

    Times named `at` or `_at` are seconds since the epoch; epochs are values of the metric `epoch_key`.
    """

    schema: Literal["recovery-receipt/1"] = RECEIPT_SCHEMA
    verdict: Verdict
    reason: str
    """One sentence: why this verdict."""
    fault: FaultDocument
    expected: ExpectedDocument
    timeline: Timeline
    checkpoint: CheckpointProof | None
    """None when none is known."""
    attempts: tuple[AttemptDocument, ...]
    world_size: tuple[WorldSize, ...]
    lost_epochs: Number | None
    """Work done twice, counted in reports."""
    lost_work: LostWork | None = None
    """Work done twice, in the unit of the run; None if unknown."""
    breakdown: Mapping[str, float | None] | None
    """Where the seconds until the first new report went: stage (detect, decide, place, start, import, load,
    first_step, report) -> seconds. None for a stage whose end is not known: its seconds are in the next one;
    None for all where nothing had to resume."""
    job: JobDocument
    preemption: Preemption | None = None
    """Where the fault is a preemption."""
    health: Steering | None = None
    """What the health checks led to, where the fault is one of health."""
    survivors: SurvivorsDocument | None = None
    """None for a training that starts again."""
    checks: tuple[CheckDocument, ...]
    not_asked: Mapping[str, str] = field(default_factory=dict)
    """Sources out of reach by design -> the reason, as for a cluster of which only the ledger is known."""
    run: str | None
    """The Ray Train run that was judged."""
    epoch_key: str | None
    """The metric that counts as epoch."""
    patches: tuple[str, ...] | None = None
    """What the lab changed of Ray in this run; None if unknown."""
    problems: tuple[str, ...]
    """Evidence that could not be read."""
    control: ControlDocument | None
    """None when it was not asked for."""
    others: tuple[OtherRun, ...] = ()
    """The other runs of the job, such as trials and validations."""
