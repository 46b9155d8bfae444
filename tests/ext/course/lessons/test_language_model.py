"""Lesson 13: what its checks make of three jobs that each lost a node, and of one that was done wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.errors import WaitTimeoutError
from lab.evidence.ledger import History, Run, parse_events
from lab.ext.course.inference.receipt import judge
from lab.ext.course.lessons.catalogue import breaking, lesson_13
from lab.ext.course.lessons.catalogue.lesson_13 import LESSON, break_each
from lab.ext.course.lessons.model import Evidence, HostTask
from tests.conftest import ROOT
from tests.ext.course.inference.test_receipt import evidence as batch_evidence
from tests.ext.course.inference.test_receipt import shape
from tests.ext.course.lessons.world import LessonLab, evidence, failing, job, name
from tests.fakes.host import FakeClock

DATA = ROOT / "tests" / "unit" / "data"
PRETRAIN, FINETUNE, BATCH = (name(13, part) for part in ("pretrain", "finetune", "batch"))


def run_with(loss: float, file: str = "ledger_kill.jsonl") -> Run:
    """A training that lost its node, as a lab wrote it down, with another loss in its reports."""
    (run,) = History.of(parse_events((DATA / file).read_bytes().splitlines())).runs
    attempts = tuple(
        replace(a, reports=tuple(replace(r, metrics={**r.metrics, "loss": loss}) for r in a.reports))
        for a in run.attempts
    )
    return replace(run, attempts=attempts)


def done(**changes: Any) -> Evidence:
    """The evidence of a student who did it right, but for these changes."""
    before = run_with(3.0)
    values: dict[str, Any] = {
        "pretrained": before,
        "tuned": run_with(2.0),
        "command": f"python train.py --from {before.name}",
        "batch": batch_evidence(),
        "status": "SUCCEEDED",
        **changes,
    }
    jobs = (job(BATCH, values["status"]), job(FINETUNE, entrypoint=values["command"]), job(PRETRAIN))
    histories = {
        PRETRAIN: History((values["pretrained"],)),
        FINETUNE: History((values["tuned"],)),
        BATCH: History(()),
    }
    batches = {} if values["batch"] is None else {BATCH: shape(values["batch"])}
    return evidence(13, *jobs, histories=histories, batches=batches)


def test_three_jobs_that_each_lost_a_node_and_went_on_pass() -> None:
    assert failing(LESSON, done()) == []


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"pretrained": run_with(3.0, "ledger_undisturbed.jsonl")}, "pre-training lost a node and went on"),
        ({"tuned": run_with(2.0, "ledger_undisturbed.jsonl")}, "fine-tuning lost a node and went on"),
        ({"tuned": run_with(3.5)}, "it was fine-tuned from the pre-trained model"),
        ({"command": "python train.py"}, "it was fine-tuned from the pre-trained model"),
        ({"status": "FAILED"}, "a batch was answered"),
        ({"batch": None}, "a node was lost, and no prompt with it"),
        ({"batch": {**batch_evidence(), "lost_nodes": []}}, "a node was lost, and no prompt with it"),
        (
            {"batch": {**batch_evidence(), "reference": {"p2": "x"}}},
            "a node was lost, and no prompt with it",
        ),
    ],
)
def test_what_was_done_wrong_fails(change: Any, wrong: str) -> None:
    assert wrong in failing(LESSON, done(**change))


def test_a_training_that_loaded_nothing_has_not_resumed() -> None:
    run = run_with(3.0)
    fresh = replace(run, attempts=tuple(replace(a, loads=()) for a in run.attempts))
    assert "pre-training lost a node and went on" in failing(LESSON, done(pretrained=fresh))


def test_nothing_done_fails_every_check() -> None:
    assert len(failing(LESSON, evidence(13))) == len(LESSON.checks)


def test_the_host_breaks_each_of_the_three_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Jobs:
        def __init__(self) -> None:
            self.listed = 0

        def list(self) -> Any:
            self.listed += 1
            return () if self.listed <= 2 else tuple(job(n, "RUNNING") for n in (PRETRAIN, FINETUNE, BATCH))

    class Lab:
        jobs = Jobs()

    broken: list[str] = []

    class Outcome:
        receipt = None

    def inject(lab: Any, request: Any, on_moment: Any, clock: Any) -> Any:
        broken.append(request.job)
        return Outcome

    def lose(lab: Any, job_id: str, target: str, after: int, say: Any, clock: Any) -> Any:
        broken.append(job_id)
        return judge(shape(batch_evidence()))

    monkeypatch.setattr(breaking, "inject", inject)
    monkeypatch.setattr(lesson_13, "lose_node", lose)
    said: list[str] = []
    break_each(Lab(), HostTask(said.append, FakeClock()))  # type: ignore[arg-type]
    assert broken == [PRETRAIN, FINETUNE, BATCH]
    assert said[-1] == "receipt: recovered"


def test_a_notebook_that_submits_nothing_is_given_up() -> None:
    world = LessonLab()
    with pytest.raises(WaitTimeoutError, match="job lesson-13-pretrain-"):
        break_each(world.lab, HostTask(lambda _: None, FakeClock()))
