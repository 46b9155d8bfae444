"""Lesson 10: what its checks make of a job that borrowed, gave way and resumed, and of one with a fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lab.api.receipt import (
    CheckDocument,
    ControlDocument,
    CurvesDocument,
    Preemption,
    ReceiptDocument,
    Verdict,
)
from lab.evidence.ledger import History, Run, parse_events
from lab.evidence.receipt.compare import Likeness
from lab.ext.course.lessons.catalogue.lesson_10 import LESSON
from lab.ext.course.lessons.model import Evidence
from tests.conftest import ROOT
from tests.ext.course.lessons.world import evidence, failing, job, name, receipt_of

DATA = ROOT / "tests" / "unit" / "data"
BLUE, RED = name(10, "borrow"), name(10, "reclaim")
ASKED = ("job finished", "resumed, not restarted")


def trained() -> Run:
    """The first attempt of a training that a lab wrote down, as if it had both workers and their GPUs."""
    (run,) = History.of(parse_events((DATA / "ledger_kill.jsonl").read_bytes().splitlines())).runs
    two = {0: "id-of-ray-worker-0", 1: "id-of-ray-worker-1"}
    plan = replace(run.plan, resources_per_worker={"CPU": 1.0, "GPU": 1.0}) if run.plan else None
    return replace(run, plan=plan, attempts=(replace(run.attempts[0], nodes=two),))


def compared(weights: Likeness) -> ControlDocument:
    curves = CurvesDocument("epoch", None, False, 0.0, "", {})
    return ControlDocument("control-1", 9.0, weights, "epoch 12 of both", curves)


def receipt(*wrong: str, of: str = BLUE, kind: str = "preemption", **changes: Any) -> ReceiptDocument:
    usual = {
        "checks": tuple(CheckDocument(name, name not in wrong, "so it was") for name in ASKED),
        "lost_epochs": 0,
        "preemption": Preemption(f"bob/{RED}", None, "blue", "InCohortReclamation"),
        "control": compared("equal"),
    }
    return receipt_of(of, kind, **{**usual, **changes})


def gathered(
    *receipts: ReceiptDocument,
    first: Callable[[Run], Run] = lambda run: run,
    blue: str = "alice/blue",
    red: str = "bob/red",
    gpus: float = 1.0,
) -> Evidence:
    """Evidence of the lesson as it should be, but for what is given."""
    return evidence(
        10,
        job(RED, metadata={"raylab_queue": red}),
        job(BLUE, "STOPPED", metadata={"raylab_queue": blue}),
        histories={BLUE: History((first(trained()),)), RED: History(())},
        demands={RED: {"GPU": gpus}},
        receipts=receipts or (receipt(),),
    )


def test_a_job_that_borrowed_gave_way_and_resumed_passes() -> None:
    assert failing(LESSON, gathered()) == []


def test_without_jobs_nothing_passes() -> None:
    assert len(failing(LESSON, evidence(10))) == len(LESSON.checks)


@pytest.mark.parametrize("queue", ["", "bob/red"])
def test_a_job_past_the_queues_or_in_the_wrong_one_is_noticed(queue: str) -> None:
    assert failing(LESSON, gathered(blue=queue)) == ["blue borrowed red's GPU"]
    assert failing(LESSON, gathered(red="" if not queue else "alice/blue")) == ["red got its GPU back"]


def test_a_job_that_borrowed_nothing_is_noticed() -> None:
    def alone(run: Run) -> Run:
        return replace(run, attempts=(replace(run.attempts[0], nodes={0: "id-of-ray-worker-0"}),))

    def without_gpu(run: Run) -> Run:
        return replace(run, plan=replace(run.plan, resources_per_worker={"CPU": 1.0}) if run.plan else None)

    for change in (alone, without_gpu):
        assert failing(LESSON, gathered(first=change)) == ["blue borrowed red's GPU"]


def test_an_owner_that_asked_for_no_gpu_took_nothing_back() -> None:
    assert failing(LESSON, gathered(gpus=0)) == ["red got its GPU back"]


WITHOUT = [
    "blue resumed from its newest checkpoint",
    "blue's training came to its end",
    "blue gave way to red",
    "the receipt says recovered",
    "the weights are those of an undisturbed run",
]
"""What fails without a receipt."""


def test_a_job_that_nobody_preempted_is_noticed() -> None:
    alone = replace(gathered(), receipts=())
    assert failing(LESSON, alone) == WITHOUT


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("resumed, not restarted", "blue resumed from its newest checkpoint"),
        ("job finished", "blue's training came to its end"),
    ],
)
def test_what_the_receipt_denies_is_noticed(wrong: str, said: str) -> None:
    denied = receipt(wrong, verdict=Verdict.FAILED)
    assert failing(LESSON, gathered(denied)) == [said, "the receipt says recovered"]


def test_a_preemption_of_another_kind_or_for_somebody_else_is_noticed() -> None:
    for preemption in (
        Preemption("bob/another", None, "blue", "InCohortReclamation"),
        Preemption(f"bob/{RED}", None, "blue", "InClusterQueue"),
        Preemption(None, None, "blue", "InCohortReclamation"),
    ):
        assert failing(LESSON, gathered(receipt(preemption=preemption))) == ["blue gave way to red"]


def test_a_receipt_that_says_something_else_is_noticed() -> None:
    seen = gathered(receipt(), receipt(verdict=Verdict.RESTARTED))
    assert failing(LESSON, seen) == ["the receipt says recovered"]


def test_a_receipt_of_another_fault_or_job_is_none() -> None:
    assert failing(LESSON, gathered(receipt(kind="kill"))) == WITHOUT
    assert failing(LESSON, gathered(receipt(of="another"))) == WITHOUT


@pytest.mark.parametrize("control", [None, compared("different")])
def test_weights_that_differ_or_were_not_compared_are_noticed(control: Any) -> None:
    assert failing(LESSON, gathered(receipt(control=control))) == [
        "the weights are those of an undisturbed run"
    ]
