"""What a receipt comes to: its headline, which tells how training went, and the work done twice."""

from __future__ import annotations

from lab.api.base import Number
from lab.api.receipt import ReceiptDocument, Verdict
from lab.evidence.receipt.expected import Expected
from lab.evidence.receipt.model import NOT_REVERTED
from lab.evidence.receipt.questions import STATE, WHOLE
from lab.evidence.receipt.questions.state import NEW_MOMENTS

RECOVERED_NOT_WHOLE = "recovered, lab not whole"
AS_EXPECTED_NOT_WHOLE = "as-expected, lab not whole"
TRAINED_ON = "went on"
FROM_MEMORY = "recovered from memory"
NOT_EQUAL = "recovered, not equal"

OPEN = (Verdict.FAILED, Verdict.NOT_VERIFIED)


def headline(receipt: ReceiptDocument) -> str:
    """Return the headline of a receipt: its verdict, or one of the texts above.

    Those are more exact than `recovered`: from no checkpoint, or not as if nothing had happened; and than
    `failed` and `not-verified`: the lab alone is not whole; or training went on to the job's end after the
    fault, and something else is wrong.
    """
    verdict = receipt.verdict
    if verdict is Verdict.RECOVERED and (differs_from(receipt) or other_moments(receipt)):
        return NOT_EQUAL
    if verdict is Verdict.RECOVERED and receipt.expected.outcome == Expected.REMEMBERED.value:
        return FROM_MEMORY
    if verdict not in OPEN:
        return verdict.value
    resumed = receipt.timeline.first_report is not None
    not_passed = [check.id for check in receipt.checks if not check.skipped and not check.passed]
    problems = [problem for problem in receipt.problems if not problem.startswith(NOT_REVERTED)]
    if not_passed == [WHOLE] and not problems:
        return RECOVERED_NOT_WHOLE if resumed else AS_EXPECTED_NOT_WHOLE
    succeeded = receipt.job.status == "SUCCEEDED"
    return TRAINED_ON if verdict is Verdict.FAILED and succeeded and resumed else verdict.value


def differs_from(receipt: ReceiptDocument) -> str:
    """Return from which epoch on which metric differs from the control run's; empty where none does.

    Only a difference that begins with the attempt that took over is one of the recovery.
    """
    curves = receipt.control.curves if receipt.control is not None else None
    later = [a.first_epoch for a in receipt.attempts if (a.started_at or 0.0) > receipt.fault.at]
    resumed = next((epoch for epoch in later if epoch is not None), None)
    first = curves.first if curves is not None else None
    if curves is None or first is None or resumed is None or first.epoch < resumed:
        return ""
    far = "" if first.relative is None else f" ({first.relative:.2g})"
    return f"{first.metric} differs from {curves.key} {first.epoch} on{far}"


def other_moments(receipt: ReceiptDocument) -> str:
    """Return a sentence on an optimizer that went on without its own state; empty where none did."""
    new = any(check.id == STATE and check.detail.endswith(NEW_MOMENTS) for check in receipt.checks)
    return NEW_MOMENTS if new else ""


def done_twice(receipt: ReceiptDocument) -> tuple[Number | None, str]:
    """Return the work done twice and its unit. Earlier labs counted reports alone."""
    work = receipt.lost_work
    return (work.amount, work.unit) if work else (receipt.lost_epochs, receipt.epoch_key or "epoch")
