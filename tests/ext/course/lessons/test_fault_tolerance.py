"""Lesson 7: what its checks make of a real ledger and of one with something wrong; who breaks the node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from lab.api.receipt import CheckDocument, ReceiptDocument, Verdict
from lab.errors import WaitTimeoutError
from lab.evidence.ledger import History, Run, RunAttempt, parse_events
from lab.ext.course.lessons.catalogue import breaking
from lab.ext.course.lessons.catalogue.breaking import START_SECONDS
from lab.ext.course.lessons.catalogue.lesson_07 import LESSON
from lab.ext.course.lessons.model import Evidence, HostTask
from lab.flows.recovery import FaultRequest
from tests.conftest import ROOT
from tests.ext.course.lessons.world import AT, LessonLab, evidence, failing, job, name, play, receipt_of
from tests.fakes.host import FakeClock

DATA = ROOT / "tests" / "unit" / "data"
JOB = name(7, "break")


def killed() -> Run:
    """A training that lost its node and went on, as a lab wrote it down."""
    (run,) = History.of(parse_events((DATA / "ledger_kill.jsonl").read_bytes().splitlines())).runs
    return run


def undisturbed() -> Run:
    (run,) = History.of(parse_events((DATA / "ledger_undisturbed.jsonl").read_bytes().splitlines())).runs
    return run


def gathered(run: Run | None = None, status: str = "SUCCEEDED", **changes: Any) -> Evidence:
    history = History((run or killed(),))
    return evidence(7, job(JOB, status), **{"histories": {JOB: history}, **changes})


def second(run: Run, change: Callable[[RunAttempt], RunAttempt]) -> Run:
    """The run with another second attempt."""
    return replace(run, attempts=(run.attempts[0], change(run.attempts[1]), *run.attempts[2:]))


def test_a_training_that_lost_its_node_and_went_on_passes() -> None:
    assert failing(LESSON, gathered()) == []


def test_without_a_job_nothing_passes() -> None:
    assert len(failing(LESSON, evidence(7))) == len(LESSON.checks)


def test_a_training_that_nobody_broke_is_noticed() -> None:
    seen = failing(LESSON, gathered(undisturbed()))
    assert "the fault was real" in seen
    assert "labctl's receipt" in seen
    assert "the job succeeded" not in seen


def test_a_fault_before_the_first_checkpoint_proves_nothing() -> None:
    assert "the fault was real" in failing(LESSON, gathered(replace(killed(), checkpoints=())))


def test_a_script_that_loads_nothing_and_starts_again_is_noticed() -> None:
    def again(attempt: RunAttempt) -> RunAttempt:
        shift = (attempt.first.progress if attempt.first else 0) or 0
        reports = tuple(replace(r, progress=(r.progress or 0) - shift + 1) for r in attempt.reports)
        return replace(attempt, loads=(), reports=reports, begun=killed().attempts[0].begun)

    assert failing(LESSON, gathered(second(killed(), again))) == [
        "the newest checkpoint was loaded",
        "resumed, not restarted",
        "little was repeated",
    ]


def test_an_older_checkpoint_is_noticed() -> None:
    run = killed()
    older = run.checkpoints[0]

    def stale(attempt: RunAttempt) -> RunAttempt:
        loads = tuple(replace(load, uri=older.uri) for load in attempt.loads)
        (begun,) = attempt.begun[0]
        return replace(attempt, loads=loads, begun={0: (replace(begun, tensors=older.states[0].tensors),)})

    assert failing(LESSON, gathered(second(run, stale))) == ["the newest checkpoint was loaded"]


def test_files_that_changed_on_their_way_are_noticed_where_no_state_shows_what_was_loaded() -> None:
    def changed(attempt: RunAttempt) -> RunAttempt:
        other = dict.fromkeys(attempt.loads[0].files or {}, "0" * 64)
        return replace(attempt, loads=tuple(replace(load, files=other) for load in attempt.loads))

    run = second(killed(), changed)
    blind = replace(run, attempts=tuple(replace(a, begun={}, handed={}) for a in run.attempts))
    assert failing(LESSON, gathered(blind)) == ["the newest checkpoint was loaded"]
    assert failing(LESSON, gathered(run)) == []


@pytest.mark.parametrize("status", ["RUNNING", "FAILED", "STOPPED"])
def test_a_job_that_did_not_come_to_its_end_is_noticed(status: str) -> None:
    assert failing(LESSON, gathered(status=status)) == ["the job succeeded"]


def test_a_receipt_that_says_something_else_is_noticed() -> None:
    def receipt(verdict: str, of: str = JOB) -> ReceiptDocument:
        whole = CheckDocument("lab whole again", verdict == "recovered", "ray-worker-1 is down")
        return receipt_of(of, "kill", verdict=Verdict(verdict), checks=(whole,))

    assert failing(LESSON, gathered(receipts=(receipt("recovered"),))) == []
    assert failing(LESSON, gathered(receipts=(receipt("failed"),))) == ["labctl's receipt"]
    answer = LESSON.checks[-1](gathered(receipts=(receipt("failed"),)))
    assert answer.detail == "failed; lab whole again: ray-worker-1 is down"
    assert failing(LESSON, gathered(receipts=(receipt("failed", "another-job"),))) == []


# The class, played by labctl


class Played:
    """A host task that notes what is said; `then` happens in each second that it sleeps."""

    def __init__(self, then: Callable[[int], None] = lambda _: None) -> None:
        self.said: list[str] = []
        self.clock = FakeClock(AT)
        for second in range(1, 1000):
            self.clock.after(second, partial(then, second))
        self.task = HostTask(self.said.append, self.clock)

    @property
    def slept(self) -> float:
        """Seconds."""
        return self.clock() - AT


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[FaultRequest]:
    """What is asked of the recovery flow, which has tests of its own."""
    requests: list[FaultRequest] = []

    class Outcome:
        receipt = None

    def inject(lab: object, request: FaultRequest, on_moment: object, **_: object) -> type[Outcome]:
        requests.append(request)
        return Outcome

    monkeypatch.setattr(breaking, "inject", inject)
    return requests


def test_the_node_that_trains_is_broken_once_the_job_is_submitted(asked: list[FaultRequest]) -> None:
    world = LessonLab()
    world.jobs.add(job(name(7, "break", "20270114-080000"), "SUCCEEDED"))

    def submitted(second: int) -> None:
        if second == 5:
            world.jobs.add(job(JOB, "RUNNING", started_at=AT + 5))

    played = Played(submitted)
    play(LESSON, world.lab, played.task)

    assert asked == [FaultRequest("", "kill", JOB, after_epoch=3)], "where its first rank trains"
    assert played.slept == 5
    assert played.said == [f"labctl fault-inject --fault kill --job {JOB}"]


def test_a_job_of_another_run_that_still_trains_is_left_alone(asked: list[FaultRequest]) -> None:
    world = LessonLab()
    world.jobs.add(job(name(7, "break", "20270114-080000"), "RUNNING"))
    played = Played(lambda second: world.jobs.add(job(JOB, "RUNNING")) if second == 3 else None)
    play(LESSON, world.lab, played.task)
    assert [request.job for request in asked] == [JOB]


def test_a_job_that_never_comes_is_not_waited_for_for_ever(asked: list[FaultRequest]) -> None:
    played = Played()
    with pytest.raises(WaitTimeoutError, match="job lesson-07-break-"):
        play(LESSON, LessonLab().lab, played.task)
    assert played.slept == START_SECONDS
    assert asked == []
