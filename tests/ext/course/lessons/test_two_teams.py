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


def runs() -> tuple[Run, Run]:
    """The two attempts of a training: that of a lab which lost a node, as if each were a job of its own."""
    (run,) = History.of(parse_events((DATA / "ledger_kill.jsonl").read_bytes().splitlines())).runs
    first, second, *_ = run.attempts
    two = {0: "id-of-ray-worker-0", 1: "id-of-ray-worker-1"}
    saved = tuple(checkpoint for checkpoint in run.checkpoints if checkpoint.attempt == first.number)
    later = tuple(checkpoint for checkpoint in run.checkpoints if checkpoint.attempt == second.number)
    plan = replace(run.plan, resources_per_worker={"CPU": 1.0, "GPU": 1.0}) if run.plan else None
    return (
        replace(run, plan=plan, attempts=(replace(first, nodes=two),), checkpoints=saved),
        replace(run, plan=plan, attempts=(replace(second, nodes=two),), checkpoints=later),
    )


def compared(weights: Likeness) -> ControlDocument:
    curves = CurvesDocument("epoch", None, False, 0.0, "", {})
    return ControlDocument("control-1", 9.0, weights, "epoch 12 of both", curves)


def receipt(of: str = BLUE, **changes: Any) -> ReceiptDocument:
    usual = {
        "checks": (CheckDocument("little was repeated", True, "0 epochs"),),
        "lost_epochs": 0,
        "preemption": Preemption(f"bob/{RED}", None, "blue", "InCohortReclamation"),
        "control": compared("equal"),
    }
    return receipt_of(of, "preemption", **{**usual, **changes})


def gathered(
    *receipts: ReceiptDocument,
    first: Callable[[Run], Run] = lambda run: run,
    second: Callable[[Run], Run] = lambda run: run,
    blue: str = "alice/blue",
    red: str = "bob/red",
    end: str = "SUCCEEDED",
    gpus: float = 1.0,
) -> Evidence:
    """Evidence of the lesson as it should be, but for what is given."""
    histories = dict(zip((BLUE, f"{BLUE}-2"), runs(), strict=True))
    of_blue = {"raylab_queue": blue}
    return evidence(
        10,
        job(f"{BLUE}-2", end, metadata=of_blue),
        job(RED, metadata={"raylab_queue": red}),
        job(BLUE, "STOPPED", metadata=of_blue),
        histories={
            BLUE: History((first(histories[BLUE]),)),
            f"{BLUE}-2": History((second(histories[f"{BLUE}-2"]),)),
            RED: History(()),
        },
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


def test_a_job_that_nobody_preempted_is_noticed() -> None:
    whole = evidence(
        10, job(BLUE, metadata={"raylab_queue": "alice/blue"}), histories={BLUE: History(runs()[:1])}
    )
    assert failing(LESSON, whole) == [
        "red got its GPU back",
        "blue resumed from its newest checkpoint",
        "blue gave way to red",
        "the receipt says recovered",
        "the weights are those of an undisturbed run",
    ]


def test_a_script_that_loads_nothing_or_an_older_checkpoint_is_noticed() -> None:
    older = runs()[0].checkpoints[0].uri

    def fresh(run: Run) -> Run:
        return replace(run, attempts=(replace(run.attempts[0], loads=()),))

    def stale(run: Run) -> Run:
        loads = tuple(replace(load, uri=older) for load in run.attempts[0].loads)
        return replace(run, attempts=(replace(run.attempts[0], loads=loads),))

    def again(run: Run) -> Run:
        reports = tuple(replace(r, progress=n) for n, r in enumerate(run.attempts[0].reports, 1))
        return replace(run, attempts=(replace(run.attempts[0], reports=reports),))

    for change in (fresh, stale, again):
        assert failing(LESSON, gathered(second=change)) == ["blue resumed from its newest checkpoint"]


@pytest.mark.parametrize("status", ["RUNNING", "FAILED", "STOPPED"])
def test_a_training_that_did_not_come_to_its_end_is_noticed(status: str) -> None:
    assert failing(LESSON, gathered(end=status)) == ["blue's training came to its end"]


def test_a_preemption_of_another_kind_or_for_somebody_else_is_noticed() -> None:
    for preemption in (
        Preemption("bob/another", None, "blue", "InCohortReclamation"),
        Preemption(f"bob/{RED}", None, "blue", "InClusterQueue"),
        Preemption(None, None, "blue", "InCohortReclamation"),
    ):
        assert failing(LESSON, gathered(receipt(preemption=preemption))) == ["blue gave way to red"]


def test_a_receipt_that_says_something_else_is_noticed() -> None:
    wrong = (CheckDocument("little was repeated", False, "9 epochs"),)
    seen = gathered(receipt(), receipt(verdict=Verdict.RESTARTED, checks=wrong))
    assert failing(LESSON, seen) == ["the receipt says recovered"]


def test_a_receipt_without_preemption_or_of_another_job_is_none() -> None:
    missing = [
        "blue gave way to red",
        "the receipt says recovered",
        "the weights are those of an undisturbed run",
    ]
    assert failing(LESSON, gathered(receipt(preemption=None))) == missing
    assert failing(LESSON, gathered(receipt("another"))) == missing


@pytest.mark.parametrize("control", [None, compared("different")])
def test_weights_that_differ_or_were_not_compared_are_noticed(control: Any) -> None:
    assert failing(LESSON, gathered(receipt(control=control))) == [
        "the weights are those of an undisturbed run"
    ]
