"""Lesson 11: a GPU falls sick in the middle of a training; the job moves, and no retry is charged."""

from __future__ import annotations

from lab.api.receipt import Verdict
from lab.flows.lessons.catalogue import receipts
from lab.flows.lessons.catalogue.breaking import INJECT, break_job
from lab.flows.lessons.catalogue.training import SUBMIT
from lab.flows.lessons.model import HostTask, Lesson, LessonCheck
from lab.lab import Lab

PART = "sick"
FAULT = "gpu-sick"
AFTER_EPOCH = 3
"""labctl lets the GPU fall sick once this epoch is stored."""


def asks(question: str, name: str, hint: str) -> LessonCheck:
    """A check that has the receipt's answer to a question."""
    return receipts.asks(PART, FAULT, question, name, hint)


def make_it_sick(lab: Lab, task: HostTask) -> None:
    """Let the GPU fall sick on which the lesson's job trains, as the class does by hand.

    Raises LabError when the job does not begin to train, or the check cannot be ordered.
    """
    before = {job.submission_id for job in lab.jobs.list()}
    break_job(lab, task, LESSON.number, PART, before, FAULT, AFTER_EPOCH)


LESSON = Lesson(
    number=11,
    name="a-sick-gpu",
    title="A sick GPU",
    notebook="11-a-sick-gpu.ipynb",
    minutes=15,
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
        receipts.says(PART, FAULT, Verdict.RECOVERED, "labctl's receipt says recovered"),
    ),
    host_task=make_it_sick,
    seconds=1200.0,
)  # fmt: skip
