"""Sums a chaos run up: a receipt for each fault, and the checkpoints that were lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lab.api.receipt import ReceiptDocument
from lab.errors import StoreError
from lab.evidence.ledger import Files, History, Run
from lab.evidence.receipt import judge
from lab.ext.chaos.result import StepResult
from lab.flows.recovery import Watch, gather, keep

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
