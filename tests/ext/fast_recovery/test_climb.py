"""Climbing the ladder: which labs are started, what each rung asks for, and what a failure leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.api.base import parse, plain
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
from lab.ext.fast_recovery.documents import LadderDocument
from lab.ext.fast_recovery.ladder import (
    FAULTS,
    RUNGS,
    Ladder,
    LadderRequest,
    climb,
    lab_of,
    picture,
    plan,
    run,
)
from lab.ext.fast_recovery.ladder.measure import Measured, StepRow
from lab.ext.fast_recovery.ladder.plan import EPOCHS, seconds_with_labs
from lab.ext.fast_recovery.ladder.run import FORKS_READY, FORKS_SECONDS
from lab.ext.fast_recovery.ladder.rungs import rungs_named
from lab.ext.fast_recovery.ladder.training import (
    CHECKPOINTS,
    EACH_STEP,
    RANKS,
    SAVE_EVERY,
    submit,
    wait_for_last_rank,
)
from lab.flows.recovery import Outcome
from lab.lab import Lab
from lab.runtime.base import Execution, ignore_progress
from lab.services import HEAD
from tests.unit.cli.fakes import FAULT, receipt
from tests.unit.fakes import FakeApi, FakeJobs, FakeLab, job

ROWS = (StepRow(0, (-1.0, 3.0), (), (-1.0, 3.0)), StepRow(1, (-1.0, 3.0), ()))
COST = Measured(0.7, 4.0, 3.0, 20, 1000, 0, 100.0, ROWS)


class FakeLadder(FakeLab):
    """A ladder whose rungs answer with a measure, or an error."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__("raylab-ladder")
        self.forks_serve(True)
        self.provided: list[str] = []
        self.unprovided: LabError | None = None
        """Raised where packages are asked for."""
        self.rung_seconds = 0.0
        """Time that each rung takes, by the runtime's clock."""
        patch.setattr(self.runtime, "provide", self.provide)
        self.errors: dict[str, LabError | KeyboardInterrupt] = {}
        self.verdict = "recovered"
        self.climbed: list[tuple[str, bool]] = []
        self.said: list[str] = []
        patch.setattr(run, "submit", self.submit)
        patch.setattr(run, "wait_for_last_rank", lambda *_: "ray-worker-1")
        patch.setattr(run, "inject", lambda *_, **__: Outcome(FAULT, receipt(self.verdict)))
        patch.setattr(run, "measure", lambda *_: COST)

    def forks_serve(self, served: bool) -> None:
        """Let the fork servers have all that trainings need, or not yet."""
        for service in (HEAD, *(f"ray-worker-{n}" for n in range(RANKS))):
            key = (self.runtime.lab, service, FORKS_READY)
            self.runtime.host.answers[key] = Execution(0 if served else 1, "")

    def provide(self, group: str) -> None:
        """Take the place of Runtime.provide."""
        assert not self.lab.status().up
        if group:
            self.provided.append(group)
            if self.unprovided is not None:
                raise self.unprovided

    def submit(self, lab: Lab, rung: Any, fault: str) -> str:
        self.runtime.clock.sleep(self.rung_seconds)
        self.climbed.append((rung.name, lab.runtime.spec().stock_ray))
        if rung.name in self.errors:
            raise self.errors[rung.name]
        return f"job-{rung.name}"

    def climb(self, *names: str, runs: int = 1) -> Ladder:
        request = LadderRequest(names, runs=runs)
        return climb(
            self.lab, request, ignore_progress, lambda _: None, self.said.append, clock=self.runtime.clock
        )

    @property
    def labs(self) -> int:
        """Number of labs that were started and taken down."""
        return len(self.runtime.calls("down"))


@pytest.fixture
def fake_ladder(monkeypatch: pytest.MonkeyPatch) -> FakeLadder:
    return FakeLadder(monkeypatch)


def test_every_rung_is_climbed_stock_ray_in_a_lab_of_its_own(fake_ladder: FakeLadder) -> None:
    climbed = fake_ladder.climb()
    assert fake_ladder.climbed == [(rung.name, rung.name == "stock") for rung in RUNGS]
    assert not fake_ladder.lab.status().up
    assert fake_ladder.runtime.calls("down") == (("down",), ("down",))
    assert [attempt.measured for attempt in climbed.attempts] == [COST] * len(RUNGS)
    assert not climbed.failures
    assert parse(LadderDocument, plain(climbed.document()), "the ladder") == climbed.document()


def test_rungs_are_climbed_from_below_and_as_often_as_asked(fake_ladder: FakeLadder) -> None:
    climbed = fake_ladder.climb("torchft", "forked", runs=2)
    assert [name for name, _ in fake_ladder.climbed] == ["forked", "torchft"] * 2
    assert [attempt.run for attempt in climbed.attempts] == [1, 1, 2, 2]
    with pytest.raises(UsageError, match="there is no rung 'nope'"):
        fake_ladder.climb("nope")


def test_runs_share_labs_where_they_can(fake_ladder: FakeLadder) -> None:
    fake_ladder.climb("stock", "forked", runs=2)
    assert [name for name, _ in fake_ladder.climbed] == ["stock", "forked", "forked", "stock"]
    assert fake_ladder.labs == 3


def test_what_the_trainings_need_is_installed_once_before_any_lab(fake_ladder: FakeLadder) -> None:
    fake_ladder.climb("stock", "forked", "torchft", runs=2)
    assert fake_ladder.provided == ["torchft"]


def test_what_a_machine_cannot_do_is_named_and_no_failure(fake_ladder: FakeLadder) -> None:
    fake_ladder.unprovided = UnsupportedError("torchft has no packages for this machine")
    climbed = fake_ladder.climb("forked", "torchft")
    (last,) = climbed.of(RUNGS[-1])
    assert (last.reason, last.impossible, last.failed) == (
        "torchft has no packages for this machine", True, False
    )  # fmt: skip
    assert [name for name, _ in fake_ladder.climbed] == ["forked"]
    assert parse(LadderDocument, plain(climbed.document()), "the ladder") == climbed.document()


def test_no_lab_is_started_for_a_rung_that_this_machine_cannot_do(fake_ladder: FakeLadder) -> None:
    fake_ladder.unprovided = UnsupportedError("torchft has no packages for this machine")
    climbed = fake_ladder.climb("torchft", runs=2)
    assert [attempt.impossible for attempt in climbed.attempts] == [True, True]
    assert fake_ladder.labs == 0


def test_a_rung_waits_for_fork_servers_that_import(fake_ladder: FakeLadder) -> None:
    fake_ladder.forks_serve(False)
    began = fake_ladder.runtime.clock()
    fake_ladder.runtime.clock.after(9.0, lambda: fake_ladder.forks_serve(True))
    fake_ladder.climb("forked")
    assert 9.0 <= fake_ladder.runtime.clock() - began < FORKS_SECONDS
    assert fake_ladder.climbed


def test_a_fork_server_that_never_serves_is_waited_for_no_longer_than_its_time(
    fake_ladder: FakeLadder,
) -> None:
    fake_ladder.forks_serve(False)
    began = fake_ladder.runtime.clock()
    climbed = fake_ladder.climb("forked", "elastic")
    assert fake_ladder.runtime.clock() - began == pytest.approx(2 * FORKS_SECONDS, abs=5.0)
    assert not climbed.failures


def test_every_rung_waits_for_the_fork_server_of_a_node_that_came_back(fake_ladder: FakeLadder) -> None:
    fake_ladder.climb("forked", "elastic")
    assert len(fake_ladder.runtime.calls("execute")) == 2 * (RANKS + 1)


def test_stock_ray_has_no_fork_server_to_wait_for(fake_ladder: FakeLadder) -> None:
    fake_ladder.climb("stock")
    assert not fake_ladder.runtime.calls("execute")


def test_progress_says_how_many_rungs_and_minutes_are_left(fake_ladder: FakeLadder) -> None:
    fake_ladder.rung_seconds = 120.0
    fake_ladder.climb("stock", "forked", "elastic")
    climbs = plan.in_order(rungs_named(("stock", "forked", "elastic")), 1)
    planned = seconds_with_labs(plan.labs(climbs), "rank-kill")
    first, *said = fake_ladder.said
    assert first == f"a lab of stock Ray ({plan.about(planned)})"
    assert [line.partition(" (")[0] for line in said] == [
        "1 of 3, stock: Ray as it is",
        "a lab as `up` starts it",
        "2 of 3, forked: and forked processes: a lab as `up` starts it",
        "3 of 3, elastic: and goes on with fewer ranks",
    ]
    left = [int(line.rpartition("about ")[2].split()[0]) for line in said[1:]]
    assert left == sorted(left, reverse=True)
    assert 1 <= left[-1] <= 3  # one of these rungs takes two minutes here


def test_progress_of_several_runs_says_which(fake_ladder: FakeLadder) -> None:
    fake_ladder.climb("forked", runs=2)
    assert [line.partition(":")[0] for line in fake_ladder.said[1:]] == [
        "1 of 2, forked, run 1", "2 of 2, forked, run 2",
    ]  # fmt: skip


def test_a_rung_that_goes_wrong_leaves_the_others(fake_ladder: FakeLadder) -> None:
    fake_ladder.errors = {"forked": JobError("the job failed")}
    climbed = fake_ladder.climb("forked", "elastic")
    assert [failure.reason for failure in climbed.failures] == ["the job failed"]
    assert climbed.attempts[1].measured == COST


def test_a_receipt_that_is_not_good_is_told(fake_ladder: FakeLadder) -> None:
    fake_ladder.verdict = "failed"
    (only,) = fake_ladder.climb("forked").failures
    assert only.verdict == "failed"
    assert only.measured == COST


def test_after_an_interrupt_the_lab_is_down_and_what_was_measured_is_there(fake_ladder: FakeLadder) -> None:
    fake_ladder.errors = {"elastic": KeyboardInterrupt()}
    climbed = fake_ladder.climb("forked", "elastic", "torchft")
    assert climbed.interrupt is fake_ladder.errors["elastic"]
    assert [attempt.rung.name for attempt in climbed.attempts] == ["forked"]
    assert parse(LadderDocument, plain(climbed.document()), "the ladder") == climbed.document()
    assert not fake_ladder.lab.status().up


def test_a_lab_that_does_not_start_is_the_reason_of_all_its_rungs(
    fake_ladder: FakeLadder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise ServiceError("ray-head did not start")

    monkeypatch.setattr(fake_ladder.lab, "up_to_train", fails)
    climbed = fake_ladder.climb("stock", "forked", "torchft")
    assert [failure.reason for failure in climbed.failures] == ["the lab: ray-head did not start"] * 3


def test_after_a_lab_that_fails_the_next_run_has_another_one(
    fake_ladder: FakeLadder, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [ServiceError("ray-worker-1 did not come back")]

    def fails(*_: Any) -> None:
        if errors:
            raise errors.pop()

    monkeypatch.setattr(run, "_make_whole", fails)
    climbed = fake_ladder.climb("forked", "elastic", "torchft", runs=2)
    assert [(failure.rung.name, failure.run) for failure in climbed.failures] == [
        ("elastic", 1),
        ("torchft", 1),
    ]
    assert [name for name, _ in fake_ladder.climbed] == ["forked", "forked", "elastic", "torchft"]
    assert fake_ladder.labs == 2


def test_a_lab_is_made_whole_only_for_another_rung(
    fake_ladder: FakeLadder, monkeypatch: pytest.MonkeyPatch
) -> None:
    repaired: list[bool] = []
    monkeypatch.setattr(run, "_make_whole", lambda lab, stock_ray, *_: repaired.append(stock_ray))
    fake_ladder.climb("stock", "forked", "elastic")
    assert repaired == [False]


def test_a_lab_that_is_up_is_left_alone(fake_ladder: FakeLadder) -> None:
    fake_ladder.lab.up_to_train(run.spec("raylab-ladder", False))
    with pytest.raises(RefusedError, match="raylab-ladder is up"):
        fake_ladder.climb("forked")
    assert fake_ladder.lab.status().up


def test_its_lab_has_a_name_of_its_own() -> None:
    assert lab_of("raylab") == "raylab-ladder"
    assert lab_of("a-name-of-20-letters") == "a-name-of-20--ladder"


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_the_trainings_differ_in_their_way_alone(
    rung: Any, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Submission] = []
    lab = FakeLab("raylab-ladder").lab

    def take(made: Submission) -> Submitted:
        given.append(made)
        return Submitted("job")

    monkeypatch.setattr(lab, "submit", take)
    assert submit(lab, rung, fault) == "job"
    (made,) = given
    words = list(made.command)
    assert words[:4] == ["python", "steps.py", "--way", rung.way]
    assert made.runtime_env["env_vars"][EACH_STEP] == "1"
    assert ("--min-workers" in words) == (rung.name == "elastic")
    wanted = {
        "--epochs": str(EPOCHS[fault]),
        "--save-every": str(SAVE_EVERY),
        "--workers": "2",
        "--seed": "7",
    }
    assert {option: words[words.index(option) + 1] for option in wanted} == wanted


def test_the_picture_has_every_rung_that_was_measured(fake_ladder: FakeLadder) -> None:
    climbed = fake_ladder.climb("forked", "torchft")
    drawn = picture(climbed)
    assert drawn is not None
    assert drawn.startswith(b"\x89PNG")
    nothing = replace(climbed, attempts=tuple(replace(a, measured=None) for a in climbed.attempts))
    assert picture(nothing) is None


def trains(ranks: int, checkpoints: int) -> History:
    """A job whose ranks are on the workers, with so many checkpoints."""
    nodes = [{"rank": rank, "node_id": f"node-{rank}"} for rank in range(ranks)]
    events: list[tuple[str, dict[str, Any]]] = [
        ("run_started", {"num_workers": 2}),
        ("attempt_started", {"workers": nodes}),
    ]
    events += [("checkpoint_committed", {"uri": f"s3://ray/{n}"}) for n in range(checkpoints)]
    return History.of(Event(name, 1.0 + n, "j", "r", 1, None, "", f) for n, (name, f) in enumerate(events))


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
    with pytest.raises(WaitTimeoutError, match="1 checkpoint of job j"):
        waiting(trains(2, 0))
