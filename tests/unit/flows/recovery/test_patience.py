"""How long a job is waited for: as long as it gets on, on a machine however slow."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest

from lab.errors import HeadDownError, WaitTimeoutError
from lab.evidence.receipt import Verdict
from lab.faults import FAULTS
from lab.flows.recovery import patience
from lab.flows.recovery.patience import EPOCH_SECONDS, START_SECONDS, Patience
from lab.flows.recovery.request import Moment
from lab.flows.recovery.watch import Watch
from tests.unit.flows.world import JOB, W0, Drill, Training

STEP = 2.0
"""Seconds between two looks."""


class Slow(Training):
    """An epoch takes `seconds`."""

    seconds = 200.0
    due = 0.0

    def epoch(self) -> None:
        if self.attempt and self.world.clock() < self.due:
            self.world.clock.after(self.due - self.world.clock(), self.epoch)
            return
        self.due = self.world.clock() + self.seconds
        super().epoch()

    def start_on(self, services: tuple[str, ...]) -> None:
        self.due = self.world.clock() + self.seconds
        super().start_on(services)


def waited(world: Drill, limit: float = inf, until: float = 1e5) -> tuple[float, Patience]:
    """Wait for the job in vain; seconds that it took."""
    watch = Watch(world.lab, JOB, world.clock)
    patience = Patience(watch, limit)
    while True:
        watch.poll()
        patience.observe()
        if patience.over or patience.waited >= until:
            return patience.waited, patience
        world.clock.sleep(STEP)


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> float:
    """A short time for getting no further, so that the test is short as well."""
    monkeypatch.setattr(patience, "BOUND_SECONDS", 600.0)
    return 600.0


def test_a_drill_on_a_slow_machine_waits_for_its_checkpoint_and_for_training_to_go_on(world: Drill) -> None:
    world.jobs.become("PENDING")
    Slow(world, epochs=6, start_after=280.0)

    receipt = world.inject(after_epoch=2).receipt

    assert world.when("kill") == pytest.approx(680, abs=3), "an epoch takes 200 s, the start 280 s"
    assert receipt is not None
    assert receipt.verdict is Verdict.RECOVERED, receipt


def test_the_first_epoch_may_take_longer_than_the_start(world: Drill) -> None:
    training = Slow(world, epochs=3)
    training.seconds = EPOCH_SECONDS - 10

    world.inject()

    assert world.when("kill") == pytest.approx(EPOCH_SECONDS - 9, abs=3)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("PENDING", "its entrypoint has not started"),
        ("RUNNING", "its entrypoint runs, and Ray Train has not begun"),
    ],
)
def test_where_nothing_moves_the_wait_ends_and_says_what_it_waited_for(
    world: Drill, status: str, said: str
) -> None:
    world.jobs.become(status)
    world.jobs.output[JOB] = "importing torch\nstill importing\n"

    with pytest.raises(WaitTimeoutError) as caught:
        world.inject(job=JOB)

    assert world.clock() - world.begin == pytest.approx(START_SECONDS, abs=2)
    assert caught.value.message.startswith("waited 300 s for a complete checkpoint; job j1 is ")
    assert f"nothing has moved for 300 s: {said}. Its last lines:\n" in caught.value.message
    assert caught.value.message.endswith("importing torch\n  still importing")
    assert not world.calls()


@pytest.mark.parametrize("after", [None, 600.0])
def test_a_head_that_is_down_is_told_within_ten_seconds_and_waited_for_half_a_minute(
    world: Drill, after: float | None
) -> None:
    world.jobs.become("RUNNING")
    down_at, told_at = world.clock() + 60.0, list[float]()
    world.clock.after(60.0, lambda: setattr(world.api, "fail", HeadDownError("the head is down")))

    def note(moment: Moment) -> None:
        if moment.key == "note head":
            told_at.append(world.clock())

    with pytest.raises(WaitTimeoutError, match="down for 30 s"):
        world.inject(job=JOB, after_seconds=after, on_moment=note)

    assert len(told_at) == 1
    assert told_at[0] - down_at < 10.0
    assert 30.0 <= world.clock() - down_at < 35.0


def test_a_head_that_is_away_for_a_moment_ends_no_wait_of_a_silent_job(world: Drill) -> None:
    world.jobs.become("RUNNING")
    world.clock.after(60.0, lambda: setattr(world.api, "fail", HeadDownError("the head is down")))
    world.clock.after(65.0, lambda: setattr(world.api, "fail", None))
    assert waited(world)[0] == pytest.approx(START_SECONDS, abs=STEP)


def test_a_head_that_is_started_again_in_time_ends_no_wait(world: Drill) -> None:
    Training(world, epochs=30)
    world.clock.after(10.0, lambda: setattr(world.api, "fail", HeadDownError("the head is down")))
    world.clock.after(30.0, lambda: setattr(world.api, "fail", None))

    receipt = world.inject(after_epoch=5).receipt

    assert receipt is not None
    assert receipt.verdict is Verdict.RECOVERED, receipt
    texts = [moment.text for moment in world.moments if moment.key == "note head"]
    assert texts == ["the head is down", "the head answers again"]


def test_an_explicit_limit_holds_although_the_job_gets_on(world: Drill) -> None:
    Training(world, epochs=1000)
    with pytest.raises(WaitTimeoutError, match=r"waited 60 s .* passed: ") as caught:
        world.inject(after_epoch=900, timeout=60.0)
    assert "--timeout 10m, or none" in caught.value.hint


def test_an_explicit_limit_only_shortens_the_wait_for_a_job_in_which_nothing_moves(world: Drill) -> None:
    world.jobs.become("RUNNING")
    assert waited(world, limit=2000.0)[0] == pytest.approx(patience.START_SECONDS, abs=1)
    assert waited(world, limit=100.0)[0] == pytest.approx(100.0, abs=1)


def grows(world: Drill, every: float, sign: Callable[[int], None], times: int = 10_000) -> None:
    """Let the sign come again and again."""

    def again(number: int = 0) -> None:
        sign(number)
        if number < times:
            world.clock.after(every, lambda: again(number + 1))

    again()


@pytest.mark.parametrize("sign", ["output", "ledger", "nodes"])
def test_whatever_moves_is_a_reason_to_go_on_waiting_but_not_for_ever(
    world: Drill, sign: str, bound: float
) -> None:
    world.jobs.become("RUNNING")

    def show(number: int) -> None:
        if sign == "output":
            world.jobs.output[JOB] = "warning\n" * number
        elif sign == "ledger":
            world.write("attempt_scheduled", attempt=1)
        elif number % 2:
            world.runtime.kill(W0)
        else:
            world.runtime.start(W0)

    grows(world, START_SECONDS - 20, show)

    took, patience = waited(world)

    assert took == pytest.approx(bound, abs=20)
    assert "it has made no progress for 6" in patience.over


def test_signs_that_stop_are_waited_for_from_the_last_one_on(world: Drill) -> None:
    world.jobs.become("RUNNING")
    grows(world, 250.0, lambda number: world.jobs.output.update({JOB: "x" * number}), times=4)

    assert waited(world)[0] == pytest.approx(1000.0 + START_SECONDS, abs=20)


def test_epochs_that_are_reported_are_waited_for_however_many_there_are(world: Drill, bound: float) -> None:
    Slow(world, epochs=1000)
    took, patience = waited(world, until=3 * bound)
    assert took == pytest.approx(3 * bound, abs=STEP)
    assert patience.over == ""


def test_a_job_that_starts_from_scratch_again_and_again_gets_no_further(world: Drill, bound: float) -> None:
    training = Slow(world, resumes=False, epochs=100)
    training.seconds = 20.0
    grows(world, 70.0, lambda _: setattr(training, "crashes", True))
    took, patience = waited(world)
    assert bound <= took < 2 * bound
    assert "it has made no progress for 6" in patience.over


def test_once_the_pace_is_known_a_rank_that_hangs_is_given_up_after_five_epochs(world: Drill) -> None:
    training = Slow(world, epochs=1000)

    def hang() -> None:
        training.due = 1e12

    world.clock.after(650.0, hang)
    took, hanging = waited(world)

    assert took == pytest.approx(601 + patience.EPOCHS * 200.0, abs=210)
    assert hanging.phase.text == "attempt 1 has reported epoch 3, and nothing after it; one took up to 200 s"


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (["attempt_scheduled"], "attempt 1 waits for the processes of its ranks"),
        (["attempt_started", "rank_ready"], "the ranks of attempt 1 import what the script needs"),
        (["attempt_started", "rank_ready", "function_started"], "attempt 1 is in its first epoch"),
        (["attempt_started", "failure_detected"], "attempt 1 has ended, and no other has begun"),
    ],
)
def test_what_the_job_is_at_is_said(world: Drill, events: list[str], said: str) -> None:
    world.jobs.become("RUNNING")
    for event in events:
        workers = [{"rank": 0, "node_id": world.node_id(W0)}]
        fields = {"workers": workers} if event == "attempt_started" else {"rank": 0}
        world.write(event, attempt=1, **fields)
    assert waited(world)[1].phase.text == said


def test_a_fault_that_lasts_longer_than_the_patience_is_no_stall(world: Drill) -> None:
    Training(world, epochs=30, takeover=START_SECONDS + 10, cpus=2.0)

    receipt = world.inject(after_epoch=2, duration=2 * START_SECONDS).receipt

    assert receipt is not None
    assert receipt.verdict is Verdict.RECOVERED, receipt


def test_a_training_that_does_not_go_on_is_given_up_and_that_is_told(world: Drill) -> None:
    Training(world, takeover=1e6)

    receipt = world.inject(after_epoch=2).receipt

    assert receipt is not None
    assert receipt.verdict is Verdict.NOT_VERIFIED
    (text,) = (m.text for m in world.moments if m.key == "note")
    assert text.startswith("nothing has moved for 300 s: attempt 1 has ended")


def test_an_armed_fault_that_does_not_act_is_given_up_once_its_epoch_is_over(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Never(type(FAULTS["exception-at-epoch"]())):  # type: ignore[misc]
        def inject(self, scene: object) -> None:
            pass

        def revert(self, scene: object) -> None:
            pass

        def refuse(self, scene: object) -> None:
            pass

    monkeypatch.setitem(FAULTS, "exception-at-epoch", Never)
    Training(world, epochs=1000)

    with pytest.raises(WaitTimeoutError, match="epoch 9"):
        world.inject("", "exception-at-epoch", after_epoch=2, parameters={"epoch": 6.0})
