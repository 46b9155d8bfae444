"""Lesson 12: a rank is lost twice: all begin again from a checkpoint, or nobody stops (torchft)."""

from __future__ import annotations

from lab.api.receipt import Verdict
from lab.ext.course.lessons.catalogue.breaking import breaks
from lab.ext.course.lessons.catalogue.training import asks, receipt_of, says, succeeded
from lab.ext.course.lessons.model import Evidence, Lesson, check, holds, need

CHECKPOINT, TORCHFT = "checkpoint", "torchft"
FAULT = "rank-kill"


@check("the gap without a stop is the shorter one", "run the cell that reads the seconds")
def compared(evidence: Evidence) -> str:
    """The survivor of torchft stood still for less time, and the notebook has read both numbers."""
    began_again, went_on = (receipt_of(evidence, part, FAULT) for part in (CHECKPOINT, TORCHFT))
    lack = "one of the two receipts has no such time"
    again = need(began_again.timeline.first_report, lack)
    on = need(went_on.survivors.longest_gap if went_on.survivors else None, lack)
    said, seconds = evidence.records.get("seconds"), {CHECKPOINT: again, TORCHFT: on}
    holds(said == seconds, f"the notebook says {said}, the receipts {seconds}")
    return holds(on < again, f"{on:.2f} s with torchft, {again:.2f} s from the checkpoint")


LESSON = Lesson(
    number=12,
    name="nobody-stops",
    title="Nobody stops",
    minutes=15,
    in_class=False,
    checks=(
        succeeded(CHECKPOINT, "the first job succeeded"),
        says(CHECKPOINT, FAULT, Verdict.RECOVERED, "all ranks began again from the checkpoint"),
        succeeded(TORCHFT, "the second job succeeded"),
        says(TORCHFT, FAULT, Verdict.AS_EXPECTED, "nobody stopped but the lost rank"),
        asks(TORCHFT, FAULT, "survivors-went-on", "the others took steps without it"),
        asks(TORCHFT, FAULT, "rejoined", "the lost rank got its state from a neighbour"),
        asks(TORCHFT, FAULT, "nothing-repeated", "no step was repeated"),
        compared,
    ),
    host_task=breaks(12, [CHECKPOINT, TORCHFT], FAULT),
    seconds=1200.0,
)
