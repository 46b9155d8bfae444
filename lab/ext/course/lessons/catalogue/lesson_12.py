"""Lesson 12: a rank is lost twice: all begin again from a checkpoint, or nobody stops (torchft)."""

from __future__ import annotations

from collections.abc import Mapping

from lab.api.receipt import Verdict
from lab.ext.course.lessons.catalogue import receipts
from lab.ext.course.lessons.catalogue.breaking import INJECT, breaks
from lab.ext.course.lessons.catalogue.training import SUBMIT, succeeded
from lab.ext.course.lessons.model import Evidence, Lesson, answer, failed
from lab.topology import Check

CHECKPOINT, TORCHFT = "checkpoint", "torchft"
FAULT = "rank-kill"


def stood_still(evidence: Evidence) -> dict[str, float | None]:
    """Seconds without progress of both jobs, by their receipts: until the next report, or between steps."""
    began_again, went_on = (receipts.receipt_of(evidence, part, FAULT) for part in (CHECKPOINT, TORCHFT))
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


LESSON = Lesson(
    number=12,
    name="nobody-stops",
    title="Nobody stops",
    notebook="12-nobody-stops.ipynb",
    minutes=15,
    in_class=False,
    checks=(
        succeeded(CHECKPOINT, "the first job succeeded"),
        receipts.says(CHECKPOINT, FAULT, Verdict.RECOVERED, "all ranks began again from the checkpoint"),
        succeeded(TORCHFT, "the second job succeeded"),
        receipts.says(TORCHFT, FAULT, Verdict.AS_EXPECTED, "nobody stopped but the lost rank"),
        receipts.asks(TORCHFT, FAULT, "survivors-went-on", "the others took steps without it"),
        receipts.asks(TORCHFT, FAULT, "rejoined", "the lost rank got its state from a neighbour"),
        receipts.asks(TORCHFT, FAULT, "nothing-repeated", "no step was repeated"),
        compared,
    ),
    host_task=breaks(12, [CHECKPOINT, TORCHFT], FAULT),
    seconds=1200.0,
)
