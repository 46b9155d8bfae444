"""Lesson 12: a rank is lost twice: all begin again from a checkpoint, or nobody stops (torchft)."""

from __future__ import annotations

from collections.abc import Mapping

from lab.api.receipt import ReceiptDocument
from lab.flows.lessons.catalogue.breaking import INJECT, break_for, wait_for_training
from lab.flows.lessons.catalogue.training import SUBMIT, succeeded
from lab.flows.lessons.model import Evidence, HostTask, Lesson, LessonCheck, answer, failed
from lab.flows.recovery import FaultRequest
from lab.lab import Lab
from lab.topology import Check

CHECKPOINT, TORCHFT = "checkpoint", "torchft"
FAULT = "rank-kill"


def receipt_of(evidence: Evidence, part: str) -> ReceiptDocument | None:
    """The newest receipt of this part's job for the loss of a rank."""
    return next((r for r in reversed(evidence.receipts_of(part)) if r.fault.kind == FAULT), None)


def verdict(part: str, wanted: str, name: str) -> LessonCheck:
    """A check that the receipt of this part has this verdict."""

    def check(evidence: Evidence) -> Check:
        receipt = receipt_of(evidence, part)
        if receipt is None:
            return failed(name, f"there is no receipt of a lost rank of {part}", INJECT)
        actual = receipt.verdict.value
        return answer(actual == wanted, name, f"{actual}: {receipt.reason}", SUBMIT)

    return check


def asks(question: str, name: str) -> LessonCheck:
    """A check that has the answer of torchft's receipt to a question."""

    def check(evidence: Evidence) -> Check:
        receipt = receipt_of(evidence, TORCHFT)
        checks = receipt.checks if receipt else ()
        match = next((check for check in checks if check.name == question), None)
        if match is None:
            return failed(name, f"no receipt of {TORCHFT} answers: {question}", INJECT)
        return answer(match.passed, name, match.detail, INJECT)

    return check


def stood_still(evidence: Evidence) -> dict[str, float | None]:
    """Seconds without progress of both jobs, by their receipts: until the next report, or between steps."""
    began_again, went_on = receipt_of(evidence, CHECKPOINT), receipt_of(evidence, TORCHFT)
    survivors = went_on.survivors if went_on else None
    return {
        CHECKPOINT: began_again.timeline.first_report if began_again else None,
        TORCHFT: survivors.longest_gap if survivors else None,
    }


def compared(evidence: Evidence) -> Check:
    """The survivor of torchft stood still for less time, and the notebook has read both numbers."""
    name = "the gap without a stop is the shorter one"
    seconds = stood_still(evidence)
    again, on = seconds[CHECKPOINT], seconds[TORCHFT]
    if again is None or on is None:
        return failed(name, "one of the two receipts is missing, or has no such time", INJECT)
    said = evidence.records.get("seconds")
    if not isinstance(said, Mapping) or dict(said) != seconds:
        return failed(
            name, f"the notebook says {said}, the receipts {seconds}", "run the cell that reads them"
        )
    return answer(on < again, name, f"{on:.2f} s with torchft, {again:.2f} s from the checkpoint", SUBMIT)


def lose_both(lab: Lab, task: HostTask) -> None:
    """Kill a rank of each job of the lesson, as the class does by hand. Raises LabError."""
    before = {job.submission_id for job in lab.jobs.list()}
    for part in (CHECKPOINT, TORCHFT):
        job, _ = wait_for_training(lab, task, before, LESSON.number, part)
        task.say(f"labctl fault-inject --fault {FAULT} --job {job}")
        break_for(lab, task, FaultRequest("", FAULT, job))


LESSON = Lesson(
    number=12,
    name="nobody-stops",
    title="Nobody stops",
    notebook="12-nobody-stops.ipynb",
    minutes=15,
    in_class="no",
    checks=(
        succeeded(CHECKPOINT, "the first job succeeded"),
        verdict(CHECKPOINT, "recovered", "all ranks began again from the checkpoint"),
        succeeded(TORCHFT, "the second job succeeded"),
        verdict(TORCHFT, "as-expected", "nobody stopped but the lost rank"),
        asks("survivors went on", "the others took steps without it"),
        asks("rejoined", "the lost rank got its state from a neighbour"),
        asks("nothing repeated", "no step was repeated"),
        compared,
    ),
    host_task=lose_both,
    seconds=1200.0,
)
