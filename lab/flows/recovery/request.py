"""Request and outcome of the recovery flow: plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lab.api.receipt import ReceiptDocument
from lab.evidence.receipt import Evidence, FaultRecord


@dataclass(frozen=True)
class FaultRequest:
    """A fault to inject, and the moment for it. All times are in seconds."""

    target: str = ""
    """The service; empty: where rank 0 trains, or what the fault is about anyway (the store, the head)."""
    kind: str = "kill"
    job: str = ""
    """Empty: the one job that runs."""
    after_epoch: int | None = None
    """Inject once a checkpoint of this epoch (or a later one) is complete; None: of any epoch."""
    after_seconds: float | None = None
    """Inject after this long instead."""
    duration: float | None = None
    """Duration of the fault, its parameter `for`; None: the fault's own default."""
    timeout: float | None = None
    """Deadline for the wait before the fault, and again for training to go on after it, and then the longest
    silence; it only shortens the wait while the job makes progress, see lab.flows.recovery.patience."""
    spare_others: bool = False
    """Refuse, at the moment of injection, a node on which a job of another namespace holds something."""
    leave_down: bool = False
    """Leave the node down until somebody starts it, and do not follow the recovery."""
    parameters: Mapping[str, float] = field(default_factory=dict)
    """Parameters of the fault beside its duration; see lab.faults.base.FaultKind."""

    @property
    def given(self) -> dict[str, float]:
        """Every parameter that was given, the duration among them."""
        return {**self.parameters, **({} if self.duration is None else {"for": self.duration})}


@dataclass(frozen=True)
class Moment:
    """One line of the live timeline. `seconds` counts from the fault; None before it."""

    key: str
    seconds: float | None
    text: str


@dataclass(frozen=True)
class Outcome:
    """The fault as it was; where the recovery was waited for, its receipt, and the evidence of that."""

    fault: FaultRecord
    receipt: ReceiptDocument | None
    evidence: Evidence | None = field(default=None, repr=False)


OnMoment = Callable[[Moment], None]


def outages(on_moment: OnMoment) -> Callable[[str], None]:
    """What a watch has to say of the head, as moments."""
    return lambda text: on_moment(Moment("note head", None, text))
