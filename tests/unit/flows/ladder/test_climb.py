"""Climbing the ladder: which labs are started, what each rung asks for, and what a failure leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.api.base import parse, plain
from lab.api.ladder import LadderDocument
from lab.cluster.api import Node
from lab.cluster.submission import Submission, Submitted
from lab.errors import (
    JobError,
    LabError,
    RefusedError,
    ServiceError,
    UnsupportedError,
    UsageError,
    WaitTimeoutError,
)
from lab.evidence.ledger import Event, History
from lab.flows.ladder import RUNGS, Ladder, LadderRequest, climb, lab_of, picture, run
from lab.flows.ladder.measure import Measured
from lab.flows.ladder.run import CHECKPOINTS, EACH_STEP, EPOCHS, submit, wait_for_last_rank
from lab.flows.recovery import Outcome
from lab.flows.report.model import StepRow
from lab.lab import Lab
from lab.runtime.base import ignore_progress
from tests.unit.cli.fakes import receipt
from tests.unit.fakes import FakeApi, FakeJobs, FakeLab, job

ROWS = (StepRow(0, (-1.0, 3.0), (), (-1.0, 3.0)), StepRow(1, (-1.0, 3.0), ()))
COST = Measured(0.7, 4.0, 3.0, 20, 1000, 0, 100.0, ROWS)


class FakeLadder(FakeLab):
    """A ladder whose rungs answer with a measure, or an error."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__("raylab-ladder")
        self.errors: dict[str, LabError | KeyboardInterrupt] = {}
        self.verdict = "recovered"
        self.climbed: list[tuple[str, bool]] = []
        self.said: list[str] = []
        patch.setattr(run, "submit", self.submit)
        patch.setattr(run, "wait_for_last_rank", lambda *_: "ray-worker-1")
        patch.setattr(run, "inject", lambda *_, **__: Outcome(receipt().fault, receipt(self.verdict)))
        patch.setattr(run, "measure", lambda *_: COST)

    def submit(self, lab: Lab, rung: Any) -> str:
        self.climbed.append((rung.name, lab.runtime.spec().stock_ray))
        if rung.name in self.errors:
            raise self.errors[rung.name]
        return f"job-{rung.name}"

    def climb(self, *names: str, runs: int = 1) -> Ladder:
        request = LadderRequest(names, runs=runs)
        return climb(self.lab, request, ignore_progress, lambda _: None, self.said.append)


@pytest.fixture
def fake_ladder(monkeypatch: pytest.MonkeyPatch) -> FakeLadder:
    return FakeLadder(monkeypatch)


def test_every_rung_is_climbed_stock_ray_in_a_lab_of_its_own(fake_ladder: FakeLadder) -> None:
    found = fake_ladder.climb()
    assert fake_ladder.climbed == [(rung.name, rung.name == "stock") for rung in RUNGS]
    assert not fake_ladder.lab.status().up
    assert fake_ladder.runtime.calls("down") == (("down",), ("down",))
    assert [each.measured for each in found.attempts] == [COST] * len(RUNGS)
    assert not found.failures
    assert parse(LadderDocument, plain(found.document()), "the ladder") == found.document()


def test_rungs_are_climbed_from_below_and_as_often_as_asked(fake_ladder: FakeLadder) -> None:
    found = fake_ladder.climb("torchft", "forked", runs=2)
    assert [name for name, _ in fake_ladder.climbed] == ["forked", "torchft"] * 2
    assert [each.run for each in found.attempts] == [1, 1, 2, 2]
    with pytest.raises(UsageError, match="there is no rung 'nope'"):
        fake_ladder.climb("nope")


def test_what_a_machine_cannot_do_is_named_and_no_failure(fake_ladder: FakeLadder) -> None:
    fake_ladder.errors = {"torchft": UnsupportedError("torchft has no packages for this machine")}
    found = fake_ladder.climb("forked", "torchft")
    last = found.attempts[-1]
    assert (last.reason, last.impossible, last.failed) == (
        "torchft has no packages for this machine", True, False
    )  # fmt: skip
    assert parse(LadderDocument, plain(found.document()), "the ladder") == found.document()


def test_a_rung_that_goes_wrong_leaves_the_others(fake_ladder: FakeLadder) -> None:
    fake_ladder.errors = {"forked": JobError("the job failed")}
    found = fake_ladder.climb("forked", "elastic")
    assert [each.reason for each in found.failures] == ["the job failed"]
    assert found.attempts[1].measured == COST


def test_a_receipt_that_is_not_good_is_told(fake_ladder: FakeLadder) -> None:
    fake_ladder.verdict = "failed"
    (only,) = fake_ladder.climb("forked").failures
    assert only.verdict == "failed"
    assert only.measured == COST


def test_after_an_interrupt_the_lab_is_down_and_what_was_measured_is_there(fake_ladder: FakeLadder) -> None:
    fake_ladder.errors = {"elastic": KeyboardInterrupt()}
    found = fake_ladder.climb("forked", "elastic", "torchft")
    assert found.interrupt is fake_ladder.errors["elastic"]
    assert [each.rung.name for each in found.attempts] == ["forked"]
    assert parse(LadderDocument, plain(found.document()), "the ladder") == found.document()
    assert not fake_ladder.lab.status().up


def test_a_lab_that_does_not_start_is_the_reason_of_all_its_rungs(
    fake_ladder: FakeLadder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise ServiceError("ray-head did not start")

    monkeypatch.setattr(fake_ladder.lab, "up_to_train", fails)
    found = fake_ladder.climb("stock", "forked", "torchft")
    assert [each.reason for each in found.failures] == ["the lab: ray-head did not start"] * 3


def test_a_lab_that_is_up_is_left_alone(fake_ladder: FakeLadder) -> None:
    fake_ladder.lab.up_to_train(run.spec("raylab-ladder", False))
    with pytest.raises(RefusedError, match="raylab-ladder is up"):
        fake_ladder.climb("forked")
    assert fake_ladder.lab.status().up


def test_its_lab_has_a_name_of_its_own() -> None:
    assert lab_of("raylab") == "raylab-ladder"
    assert lab_of("a-name-of-20-letters") == "a-name-of-20--ladder"


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_the_trainings_differ_in_their_way_alone(rung: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Submission] = []
    lab = FakeLab("raylab-ladder").lab

    def take(made: Submission) -> Submitted:
        given.append(made)
        return Submitted("job")

    monkeypatch.setattr(lab, "submit", take)
    assert submit(lab, rung) == "job"
    (made,) = given
    words = list(made.command)
    assert words[:4] == ["python", "steps.py", "--way", rung.way]
    assert made.runtime_env["env_vars"][EACH_STEP] == "1"
    assert ("--min-workers" in words) == (rung.name == "elastic")
    wanted = {"--epochs": str(EPOCHS), "--save-every": "20", "--workers": "2", "--seed": "7"}
    assert {option: words[words.index(option) + 1] for option in wanted} == wanted


def test_the_picture_has_every_rung_that_was_measured(fake_ladder: FakeLadder) -> None:
    found = fake_ladder.climb("forked", "torchft")
    drawn = picture(found)
    assert drawn is not None
    assert drawn.startswith(b"\x89PNG")
    nothing = replace(found, attempts=tuple(replace(a, measured=None) for a in found.attempts))
    assert picture(nothing) is None


def trains(ranks: int, checkpoints: int) -> History:
    """A job whose ranks are on the workers, with so many checkpoints."""
    nodes = [{"rank": rank, "node_id": f"node-{rank}"} for rank in range(ranks)]
    told: list[tuple[str, dict[str, Any]]] = [
        ("run_started", {"num_workers": 2}),
        ("attempt_started", {"workers": nodes}),
    ]
    told += [("checkpoint_committed", {"uri": f"s3://ray/{n}"}) for n in range(checkpoints)]
    return History.of(Event(name, 1.0 + n, "j", "r", 1, None, "", f) for n, (name, f) in enumerate(told))


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A lab with two workers and one job; its history is what the test says."""
    nodes = tuple(Node(f"node-{n}", f"ray-worker-{n}", True, False, {}, 1.0, None, "") for n in (0, 1))
    parts = FakeLab(api=FakeApi(lambda: nodes), jobs=FakeJobs(job("j", "RUNNING")))
    lab = parts.lab

    def after(*histories: History) -> str:
        left = list(histories)
        monkeypatch.setattr(lab, "history", lambda _: left.pop(0) if len(left) > 1 else left[0])
        return wait_for_last_rank(lab, "j", parts.clock)

    after.jobs = parts.jobs  # type: ignore[attr-defined]
    return after


def test_the_last_rank_is_lost_once_enough_is_saved(waiting: Any) -> None:
    early, enough = trains(2, CHECKPOINTS - 1), trains(2, CHECKPOINTS)
    assert waiting(History(()), trains(1, CHECKPOINTS), early, enough) == "ray-worker-1"


def test_a_job_that_ends_before_its_rank_could_be_lost_is_named(waiting: Any) -> None:
    waiting.jobs.known["j"] = job("j", "FAILED")
    with pytest.raises(RefusedError, match=r"j ended \(FAILED\)"):
        waiting(History(()))


def test_a_training_that_does_not_come_so_far_is_given_up(waiting: Any) -> None:
    with pytest.raises(WaitTimeoutError, match=f"{CHECKPOINTS} checkpoints"):
        waiting(trains(2, 0))
