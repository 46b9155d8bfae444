"""Lesson 11: a GPU falls sick in the middle of a training; the job moves, and no retry is charged."""

from __future__ import annotations

from lab.api.receipt import ReceiptDocument, Verdict
from lab.flows.lessons.catalogue.breaking import INJECT, break_for, wait_for_training
from lab.flows.lessons.catalogue.training import SUBMIT
from lab.flows.lessons.model import Evidence, HostTask, Lesson, LessonCheck, answer, failed
from lab.flows.recovery import FaultRequest
from lab.lab import Lab
from lab.topology import Check

PART = "sick"
FAULT = "gpu-sick"
AFTER_EPOCH = 3
"""labctl lets the GPU fall sick once this epoch is stored."""


def receipt_of(evidence: Evidence) -> ReceiptDocument | None:
    """The newest receipt of the lesson's job for this fault."""
    return next((r for r in reversed(evidence.receipts_of(PART)) if r.fault.kind == FAULT), None)


def asks(question: str, name: str, hint: str) -> LessonCheck:
    """A check that has the receipt's answer to a question."""

    def check(evidence: Evidence) -> Check:
        receipt = receipt_of(evidence)
        if receipt is None:
            return failed(name, "there is no receipt of a sick GPU", INJECT)
        match = next((check for check in receipt.checks if check.name == question), None)
        if match is None:
            return failed(name, f"the receipt does not ask: {question}", INJECT)
        return answer(match.passed, name, match.detail, hint)

    return check


def recovered(evidence: Evidence) -> Check:
    """The receipt says `recovered`."""
    name = "labctl's receipt says recovered"
    receipt = receipt_of(evidence)
    if receipt is None:
        return failed(name, "there is none", INJECT)
    said = f"{receipt.verdict.value}: {receipt.reason}"
    return answer(receipt.verdict is Verdict.RECOVERED, name, said, SUBMIT)


def make_it_sick(lab: Lab, task: HostTask) -> None:
    """Let the GPU fall sick on which the lesson's job trains, as the class does by hand.

    Raises LabError when the job does not begin to train, or the check cannot be ordered.
    """
    before = {job.submission_id for job in lab.jobs.list()}
    job, target = wait_for_training(lab, task, before, LESSON.number, PART)
    task.say(f"labctl fault-inject {target} --fault {FAULT} --job {job}")
    request = FaultRequest(target, FAULT, job, after_epoch=AFTER_EPOCH)
    break_for(lab, task, request)


LESSON = Lesson(
    number=11,
    name="a-sick-gpu",
    title="A sick GPU",
    notebook="11-a-sick-gpu.ipynb",
    minutes=15,
    in_class="teacher",
    checks=(
        asks("a real fault", "it was noticed", INJECT),
        asks("avoided", "the node was avoided", "no other program may open it meanwhile"),
        asks(
            "moved, no retry charged", "the job was moved, no retry charged",
            "the lab needs a second worker with a GPU that is free",
        ),
        asks("right checkpoint", "the newest checkpoint was loaded", SUBMIT),
        asks("resumed, not restarted", "resumed, not restarted", SUBMIT),
        asks("little lost", "little was repeated", SUBMIT),
        asks("job finished", "the job succeeded", "wait for its end"),
        recovered,
    ),
    host_task=make_it_sick,
    seconds=1200.0,
)  # fmt: skip
