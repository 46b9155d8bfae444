"""Lesson 12: what its checks make of two receipts of a lost rank, and of a student who did it wrong."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from lab.api.receipt import CheckDocument, ReceiptDocument, SurvivorsDocument, Timeline, Verdict
from lab.ext.course.lessons.catalogue import breaking
from lab.ext.course.lessons.catalogue.lesson_12 import CHECKPOINT, LESSON, TORCHFT
from lab.ext.course.lessons.model import Evidence, HostTask
from lab.flows.recovery import FaultRequest
from tests.ext.course.lessons.world import LessonLab, evidence, failing, job, name, play, receipt_of
from tests.fakes.host import FakeClock

JOBS = {part: name(12, part) for part in (CHECKPOINT, TORCHFT)}
SURVIVED = ("survivors went on", "rejoined", "nothing repeated", "equal ranks")
SECONDS = {CHECKPOINT: 3.5, TORCHFT: 0.5}


def receipt(part: str, *wrong: str, verdict: str = "", kind: str = "rank-kill") -> ReceiptDocument:
    torchft = part == TORCHFT
    return receipt_of(
        JOBS[part],
        kind,
        verdict=Verdict(verdict or ("as-expected" if torchft else "recovered")),
        checks=tuple(CheckDocument(n, n not in wrong, "so it was") for n in SURVIVED if torchft),
        timeline=Timeline(first_report=None if torchft else SECONDS[CHECKPOINT]),
        survivors=SurvivorsDocument(SECONDS[TORCHFT], None, (), ()) if torchft else None,
    )


GOOD = (receipt(CHECKPOINT), receipt(TORCHFT))


def gathered(*receipts: ReceiptDocument, records: Any = SECONDS) -> Evidence:
    jobs = [job(name) for name in JOBS.values()]
    return evidence(12, *jobs, receipts=receipts, records={"seconds": records} if records else {})


def test_two_receipts_that_are_well_pass() -> None:
    assert failing(LESSON, gathered(*GOOD)) == []


def test_without_a_job_nothing_passes() -> None:
    assert len(failing(LESSON, evidence(12))) == len(LESSON.checks)


def test_a_student_who_lost_a_rank_of_one_job_only_is_told() -> None:
    assert failing(LESSON, gathered(GOOD[0])) == [
        "nobody stopped but the lost rank",
        "the others took steps without it",
        "the lost rank got its state from a neighbour",
        "no step was repeated",
        "the gap without a stop is the shorter one",
    ]


def test_a_receipt_of_another_fault_is_none() -> None:
    wrong = failing(LESSON, gathered(receipt(CHECKPOINT, kind="kill"), GOOD[1]))
    assert "all ranks began again from the checkpoint" in wrong


def test_a_step_that_was_repeated_is_noticed() -> None:
    repeated = receipt(TORCHFT, "nothing repeated", verdict="failed")
    assert failing(LESSON, gathered(GOOD[0], repeated)) == [
        "nobody stopped but the lost rank",
        "no step was repeated",
    ]


@pytest.mark.parametrize("records", [None, {CHECKPOINT: 3.5, TORCHFT: 0.1}])
def test_seconds_that_are_not_the_receipts_do_not_pass(records: Any) -> None:
    wrong = failing(LESSON, gathered(*GOOD, records=records))
    assert wrong == ["the gap without a stop is the shorter one"]


def test_the_host_loses_a_rank_of_each_job_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    world = LessonLab()
    asked: list[tuple[str, str]] = []
    said: list[str] = []

    def inject(lab: Any, request: FaultRequest, arguments: Any, **_: Any) -> Any:
        asked.append((request.kind, request.job))
        return type("Outcome", (), {"receipt": None})()

    clock = FakeClock()
    for second, part in enumerate((CHECKPOINT, TORCHFT), 1):
        clock.after(second, partial(world.jobs.add, job(JOBS[part], "RUNNING")))
    monkeypatch.setattr(breaking, "inject", inject)
    play(LESSON, world.lab, HostTask(said.append, clock))
    assert asked == [("rank-kill", JOBS[CHECKPOINT]), ("rank-kill", JOBS[TORCHFT])]
    assert said[0] == f"labctl fault-inject --fault rank-kill --job {JOBS[CHECKPOINT]}"
