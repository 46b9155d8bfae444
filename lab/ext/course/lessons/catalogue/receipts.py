"""Checks that several lessons share, about the receipt of a fault of the notebook's job."""

from __future__ import annotations

from lab.api.receipt import CHECKS, ReceiptDocument, Verdict
from lab.ext.course.lessons.catalogue.breaking import INJECT
from lab.ext.course.lessons.catalogue.training import SUBMIT
from lab.ext.course.lessons.model import Evidence, LessonCheck, answer, failed
from lab.topology import Check


def receipt_of(evidence: Evidence, part: str, fault: str) -> ReceiptDocument | None:
    """The newest receipt of this part's job for this fault."""
    return next((r for r in reversed(evidence.receipts_of(part)) if r.fault.kind == fault), None)


def asks(part: str, fault: str, question: str, name: str, hint: str = INJECT) -> LessonCheck:
    """A check that has the receipt's answer to a question."""

    def check(evidence: Evidence) -> Check:
        receipt = receipt_of(evidence, part, fault)
        checks = receipt.checks if receipt else ()
        match = next((check for check in checks if check.id == question), None)
        if match is None:
            return failed(name, f"no receipt of {fault} answers: {CHECKS[question]}", INJECT)
        return answer(match.passed, name, match.detail, hint)

    return check


def says(part: str, fault: str, verdict: Verdict, name: str) -> LessonCheck:
    """A check that the receipt has this verdict."""

    def check(evidence: Evidence) -> Check:
        receipt = receipt_of(evidence, part, fault)
        if receipt is None:
            return failed(name, f"there is no receipt of {fault} for the job {part}", INJECT)
        said = f"{receipt.verdict.value}: {receipt.reason}"
        return answer(receipt.verdict is verdict, name, said, SUBMIT)

    return check
