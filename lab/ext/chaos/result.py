"""The result of a chaos run: a receipt for each fault, the checkpoints that were lost, and the sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lab.api.receipt import ControlDocument, ReceiptDocument
from lab.errors import StoreError
from lab.evidence.ledger import Files, History, Number, Run
from lab.evidence.receipt import FaultRecord, judge
from lab.ext.chaos.documents import ChaosDocument, ChaosJob, ChaosStep, CheckpointCounts, FaultCounts
from lab.ext.chaos.plan import Plan, Step
from lab.flows.recovery import Watch, gather, keep
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


Stored = dict[str, Files]
"""Checkpoint URI -> its files in the object store; empty where it has none."""


def judge_steps(
    watch: Watch,
    done: Sequence[StepResult],
    stored: Stored,
    say: Callable[[str], None],
    control: History | None = None,
) -> list[StepResult]:
    """Every step with the receipt of its fault, which is kept in the object store too.

    `stored` takes up the checkpoints that are read, so that none is read once more for each fault; `say` gets
    a problem, or an empty text. `control` is the history of the job's control run, once there is one.
    """
    records = [step.record for step in done if step.record is not None]
    steps = []
    for step in done:
        if step.record is None:
            steps.append(step)
            continue
        others = [record for record in records if record is not step.record]
        receipt = judge(
            gather(watch, step.record, step.problems, others=others, read=stored, control=control)
        )
        say(keep(watch.lab.store, receipt))
        steps.append(replace(step, receipt=receipt, downtime=downtime(watch.run, receipt)))
    return steps


def downtime(run: Run | None, receipt: ReceiptDocument) -> float | None:
    """Seconds from the fault to the next report of rank 0: the new attempt's, where there had to be one.

    None where no report came.
    """
    if receipt.timeline.first_report is not None:
        return receipt.timeline.first_report
    at = receipt.fault.at
    reports = [report.at for attempt in (run.attempts if run else ()) for report in attempt.reports]
    return min((report - at for report in reports if report > at), default=None)


def lost_checkpoints(
    watch: Watch, done: Sequence[StepResult], stored: Stored, say: Callable[[str], None]
) -> list[str]:
    """Committed checkpoints that are changed, or gone although an older one is kept, or the newest.

    Training that keeps only the newest deletes the older ones; one that a fault has put back afterwards says
    nothing about those that came after it. Nor does an older one in a run that keeps the best.
    """
    from lab.cluster.checkpoints import stored_manifest

    put_back = {uri for step in done if step.record for uri in step.record.damaged}
    lost = []
    for run in watch.history.runs:
        older, by_age = False, not (run.plan and run.plan.best_by)
        for checkpoint in run.checkpoints:
            uri = checkpoint.uri
            if uri not in stored:
                try:
                    stored[uri] = stored_manifest(watch.lab.store, uri)
                except StoreError as error:
                    say(f"{uri} could not be read back: {error.message}")
                    continue
            files = stored[uri]
            changed = bool(files) and checkpoint.files is not None and not checkpoint.accepts(files)
            gone = not files and ((older and by_age) or checkpoint is run.checkpoints[-1])
            if changed or gone:
                lost.append(uri)
            older = older or (bool(files) and uri not in put_back)
    return lost
