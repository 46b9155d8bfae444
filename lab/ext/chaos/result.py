"""The result of a chaos run: a receipt for each fault, and the sum."""

from __future__ import annotations

from dataclasses import dataclass

from lab.api.receipt import ControlDocument, ReceiptDocument
from lab.evidence.ledger import Number
from lab.evidence.receipt import FaultRecord
from lab.ext.chaos.documents import ChaosDocument, ChaosJob, ChaosStep, CheckpointCounts, FaultCounts
from lab.ext.chaos.plan import Plan, Step
from lab.host.quantities import plural, rounded


@dataclass(frozen=True)
class StepResult:
    """One step of the plan: its receipt, or the reason why it was left out."""

    step: Step
    target: str
    receipt: ReceiptDocument | None = None
    skipped: str = ""
    downtime: float | None = None
    """Seconds from the fault to the next report of progress; None where none came."""
    record: FaultRecord | None = None
    """The fault as it was; its receipt comes when the job has ended."""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChaosResult:
    """A chaos run. Times are seconds since the epoch."""

    job: str
    status: str
    plan: Plan
    began: float
    ended: float
    steps: tuple[StepResult, ...]
    checkpoints: int
    """Number of those that the run committed."""
    lost: tuple[str, ...]
    """URIs of checkpoints that are gone or changed, those not counted that training itself deleted."""
    control: ControlDocument | None = None
    problems: tuple[str, ...] = ()
    """Errors beside the faults: something could not be read, kept, or compared."""
    interrupt: KeyboardInterrupt | None = None
    """The interrupt that ended the chaos before the job did. The receipts cannot be final then."""

    @property
    def injected(self) -> tuple[StepResult, ...]:
        """The steps whose fault was injected."""
        return tuple(step for step in self.steps if step.receipt is not None)

    @property
    def survived(self) -> int:
        """Number of faults with the outcome that they should have."""
        return sum(step.receipt.verdict.good for step in self.injected if step.receipt)

    @property
    def downtime(self) -> float:
        """Seconds in all from a fault to the next report."""
        return sum(step.downtime or 0.0 for step in self.injected)

    @property
    def repeated(self) -> Number:
        """Work done twice in all, in reports."""
        return sum(step.receipt.lost_epochs or 0 for step in self.injected if step.receipt)

    @property
    def weights(self) -> str | None:
        """The final weights compared with those of the control run; None without one."""
        return None if self.control is None else self.control.weights

    @property
    def good(self) -> bool:
        """True if the job finished, every fault was survived, nothing was lost and the control run agrees."""
        return not self.failure

    @property
    def failure(self) -> str:
        """The first reason why it is not good; empty if it is."""
        for step in self.injected:
            if step.receipt and not step.receipt.verdict.good:
                verdict = step.receipt.verdict.value
                return f"{step.step.kind} on {step.target}: {verdict}: {step.receipt.reason}"
        if self.status != "SUCCEEDED":
            return f"job {self.job} is {self.status or 'unknown'}"
        if self.lost:
            return f"{plural(len(self.lost), 'checkpoint')} lost"
        if not self.injected:
            return (
                "no fault was injected before the job ended; submit a longer job, or choose a shorter --every"
            )
        if self.problems:
            return self.problems[0]
        if self.weights not in (None, "equal"):
            return f"the weights are not those of the control run: {self.weights}"
        return "" if self.interrupt is None else "interrupted"

    def document(self) -> ChaosDocument:
        """The same as `--json` has it."""
        return ChaosDocument(
            good=self.good,
            interrupted=self.interrupt is not None,
            job=ChaosJob(self.job, self.status),
            began=round(self.began, 3),
            ended=round(self.ended, 3),
            seed=self.plan.seed,
            faults=FaultCounts(len(self.injected), self.survived, len(self.steps) - len(self.injected)),
            downtime=round(self.downtime, 3),
            repeated=self.repeated,
            checkpoints=CheckpointCounts(self.checkpoints, self.lost),
            control=self.control,
            problems=self.problems,
            steps=tuple(
                ChaosStep(
                    at=step.step.at,
                    fault=step.step.kind,
                    target=step.target,
                    parameters=dict(step.step.parameters),
                    downtime=rounded(step.downtime),
                    skipped=step.skipped or None,
                    receipt=step.receipt,
                )
                for step in self.steps
            ),
        )
