"""The data of a report. Times are seconds after `ReportData.origin` unless it says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.api.receipt import (
    AttemptDocument,
    CheckDocument,
    CheckpointProof,
    CurvesDocument,
    FaultDocument,
    ReceiptDocument,
)
from lab.evidence.ledger import History, Number
from lab.faults.records import LoggedFault


@dataclass(frozen=True)
class Subject:
    """The subject of a report: a receipt, or a job that nothing was done to."""

    job: str
    receipt: ReceiptDocument | None = None
    """As it was kept or saved; None for a job without a receipt."""
    key: str = ""
    """The receipt's key in the store, empty for a file."""


@dataclass(frozen=True)
class ReportEvidence:
    """Everything that was found about a subject; what was not is None or empty, and named in `missing`."""

    subject: Subject
    lab: str = ""
    runtime: str = ""
    history: History | None = None
    faults: tuple[LoggedFault, ...] = ()
    """Faults on record for the job."""
    control_job: str = ""
    control: History | None = None
    curves: CurvesDocument | None = None
    services: Mapping[str, str] = field(default_factory=dict)
    """Id of a node -> the service that it was."""
    workers: tuple[str, ...] = ()
    """Every worker service of the lab."""
    job: Mapping[str, str] = field(default_factory=dict)
    """`status`, `entrypoint` and `recipe` of the job, as Ray has them."""
    machine: Mapping[str, object] = field(default_factory=dict)
    """Versions, cores and memory, as the ledger has them."""
    gpus: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bar:
    """One rank of one attempt on a service, from its start to its end."""

    service: str
    attempt: int
    rank: int
    begin: float
    end: float
    reports: tuple[float, ...] = ()
    """Times at which rank 0 reported in it."""


@dataclass(frozen=True)
class Down:
    """The time in which the fault kept a service from training; `lost` when Ray gave its node up."""

    service: str
    begin: float
    end: float | None
    """None when it lasted to the end of what is known."""
    lost: bool = True


@dataclass(frozen=True)
class Line:
    """One metric as one attempt (or the control run) reported it: (epoch, value), in order."""

    attempt: int
    points: tuple[tuple[Number, float], ...]


@dataclass(frozen=True)
class Metric:
    """One metric of a run, and of its control run where there is one."""

    name: str
    lines: tuple[Line, ...]
    control: tuple[tuple[Number, float], ...] = ()


@dataclass(frozen=True)
class ReportedMoment:
    """Something that happened, `seconds` after the fault; None: it did not, or is not known."""

    key: str
    label: str
    seconds: float | None
    meaning: str


@dataclass(frozen=True)
class Part:
    """One part of the time between the fault and the next step of training."""

    key: str
    seconds: float
    meaning: str


@dataclass(frozen=True)
class ReportData:
    """All that a report says. Plain values: it can be drawn without a lab."""

    title: str
    verdict: str
    """The receipt's, or empty for a job without one."""
    headline: str
    """The key in `HEADLINES` of lab.ext.report.labels."""
    reason: str
    fault: FaultDocument | None
    """The receipt's."""
    job: str
    status: str
    command: str
    origin: float
    """Second zero, in seconds since the epoch: the fault, or the start of the run."""
    epoch_key: str
    moments: tuple[ReportedMoment, ...] = ()
    services: tuple[str, ...] = ()
    """The rows of the picture of who trained when."""
    bars: tuple[Bar, ...] = ()
    down: Down | None = None
    metrics: tuple[Metric, ...] = ()
    fault_epoch: float | None = None
    """The last epoch that was reported before the fault."""
    repeated: tuple[Number, Number] | None = None
    """The first and the last of the epochs that were done twice."""
    control_job: str = ""
    curves: CurvesDocument | None = None
    parts: tuple[Part, ...] = ()
    attempts: tuple[AttemptDocument, ...] = ()
    """The attempts of a receipt, or of the ledger, with times in seconds after `origin`."""
    checks: tuple[CheckDocument, ...] = ()
    checkpoint: CheckpointProof | None = None
    lost: tuple[Number | None, str] = (None, "epoch")
    """Work done twice, and its unit."""
    expected: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def time_label(self) -> str:
        """The label of an axis of time."""
        return f"seconds after {'the fault' if self.fault else 'the start of training'}"
