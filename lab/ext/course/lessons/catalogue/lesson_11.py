"""Lesson 11: a GPU falls sick in the middle of a training; the job moves, and no retry is charged."""

from __future__ import annotations

from functools import partial

from lab.api.receipt import Verdict
from lab.ext.course.lessons.catalogue import training
from lab.ext.course.lessons.catalogue.breaking import INJECT, breaks
from lab.ext.course.lessons.model import SUBMIT, Lesson

PART = "sick"
FAULT = "gpu-sick"
AFTER_EPOCH = 3
"""labctl lets the GPU fall sick once this epoch is stored."""

asks = partial(training.asks, PART, FAULT)

LESSON = Lesson(
    number=11,
    name="a-sick-gpu",
    title="A sick GPU",
    minutes=15,
    checks=(
        asks("fault", "it was noticed", INJECT),
        asks("avoided", "the node was avoided", "no other program may open it meanwhile"),
        asks(
            "moved-free", "the job was moved, no retry charged",
            "the lab needs a second worker with a GPU that is free",
        ),
        asks("right-checkpoint", "the newest checkpoint was loaded", SUBMIT),
        asks("resumed", "resumed, not restarted", SUBMIT),
        asks("little-lost", "little was repeated", SUBMIT),
        asks("finished", "the job succeeded", "wait for its end"),
        training.says(PART, FAULT, Verdict.RECOVERED, "labctl's receipt says recovered"),
    ),
    breaks_node=True,
    host_task=breaks(11, [PART], FAULT, AFTER_EPOCH),
    seconds=1200.0,
)  # fmt: skip
