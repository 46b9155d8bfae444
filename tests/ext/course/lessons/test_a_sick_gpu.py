"""Lesson 11: what its checks make of a receipt that is well and of one with something wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.api.receipt import CheckDocument, ReceiptDocument, Verdict
from lab.ext.course.lessons.catalogue import breaking
from lab.ext.course.lessons.catalogue.lesson_11 import FAULT, LESSON
from lab.ext.course.lessons.model import Evidence, HostTask
from lab.flows.recovery import FaultRequest
from tests.ext.course.lessons.world import LessonLab, evidence, failing, job, name, play, receipt_of
from tests.fakes.host import FakeClock

JOB = name(11, "sick")
ASKED = (
    "job finished",
    "a real fault",
    "avoided",
    "moved, no retry charged",
    "right checkpoint",
    "resumed, not restarted",
    "little lost",
)


def receipt(*wrong: str, verdict: str = "recovered", kind: str = FAULT, of: str = JOB) -> ReceiptDocument:
    checks = tuple(CheckDocument(name, name not in wrong, "so it was") for name in ASKED)
    return receipt_of(of, kind, verdict=Verdict(verdict), checks=checks)


def gathered(*receipts: ReceiptDocument) -> Evidence:
    return evidence(11, job(JOB, "STOPPED"), receipts=receipts)


def test_a_job_that_moved_and_came_to_its_end_passes() -> None:
    assert failing(LESSON, gathered(receipt())) == []


def test_without_a_job_nothing_passes() -> None:
    assert len(failing(LESSON, evidence(11))) == len(LESSON.checks)


@pytest.mark.parametrize("other", [receipt(kind="kill"), receipt(of="another-job")])
def test_a_receipt_of_another_fault_or_job_is_none(other: ReceiptDocument) -> None:
    assert len(failing(LESSON, gathered(other))) == len(LESSON.checks)


def test_the_newest_receipt_counts() -> None:
    assert failing(LESSON, gathered(receipt("avoided", verdict="failed"), receipt())) == []
    assert failing(LESSON, gathered(receipt(), receipt("avoided", verdict="failed"))) == [
        "the node was avoided",
        "labctl's receipt says recovered",
    ]


def test_a_retry_that_was_charged_is_noticed() -> None:
    wrong = gathered(receipt("moved, no retry charged", verdict="failed"))
    assert "the job was moved, no retry charged" in failing(LESSON, wrong)


def test_a_receipt_that_does_not_ask_is_not_taken_for_a_yes() -> None:
    old = receipt()
    asked = tuple(check for check in old.checks if check.name != "avoided")
    assert failing(LESSON, gathered(replace(old, checks=asked))) == ["the node was avoided"]


def test_the_host_lets_the_gpu_of_the_job_fall_sick(monkeypatch: pytest.MonkeyPatch) -> None:
    world = LessonLab()
    asked: list[FaultRequest] = []
    said: list[str] = []
    clock = FakeClock()
    clock.after(1, lambda: world.jobs.add(job(JOB, "RUNNING")))

    def inject(lab: Any, request: FaultRequest, arguments: Any, **_: Any) -> Any:
        asked.append(request)
        return type("Outcome", (), {"receipt": None})()

    monkeypatch.setattr(breaking, "inject", inject)
    play(LESSON, world.lab, HostTask(said.append, clock))
    assert [(request.target, request.kind, request.job) for request in asked] == [("", FAULT, JOB)]
    assert said == [f"labctl fault-inject --fault gpu-sick --job {JOB}"]
