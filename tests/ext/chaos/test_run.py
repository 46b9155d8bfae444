"""A chaos run in a world without processes: what is injected, what is left out, what is judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from lab.api.base import plain
from lab.api.receipt import ControlDocument, CurvesDocument
from lab.errors import (
    JobError,
    LabDownError,
    NotFoundError,
    RefusedError,
    ServiceError,
    StoreError,
    UnsupportedError,
    WaitTimeoutError,
)
from lab.evidence.ledger import Event, History
from lab.evidence.receipt.compare import Likeness
from lab.ext.chaos.documents import FaultCounts
from lab.ext.chaos.plan import Plan, Step
from lab.ext.chaos.result import ChaosResult
from lab.ext.chaos.run import run_chaos
from lab.faults import FAULTS, Scene
from lab.faults.base import rank_on_target
from lab.faults.kinds.at_epoch import ExceptionAtEpoch
from lab.faults.kinds.kill import Kill
from lab.faults.kinds.rank import RankKill
from lab.flows.recovery import Moment
from lab.flows.recovery.control import Control
from lab.runtime.active_faults import ActiveFaults, left_undone
from lab.topology import RECEIPTS_PREFIX, LabSpec
from tests.unit.flows.world import JOB, W0, W1, Drill, Training

LONG = 60


def chaos(world: Drill, plan: Plan, **options: Any) -> ChaosResult:
    return run_chaos(
        world.lab,
        plan,
        options.pop("on_moment", world.moments.append),
        clock=world.clock,
        **options,
    )


def steps(*kinds: str, every: float = 8.0, **options: Any) -> Plan:
    written = tuple(Step(number * every, kind) for number, kind in enumerate(kinds, 1))
    return Plan(written=written, **options)


def verdicts(result: ChaosResult) -> list[str]:
    return [step.receipt.verdict.value if step.receipt else step.skipped for step in result.steps]


def texts(world: Drill, key: str) -> list[str]:
    return [moment.text for moment in world.moments if moment.key == key]


def test_several_faults_are_survived_and_each_has_its_receipt(world: Drill) -> None:
    Training(world, epochs=LONG)

    result = chaos(world, steps("kill", "pause", "stop"))

    assert verdicts(result) == ["recovered"] * 3
    assert (result.status, result.good, result.survived, result.lost) == ("SUCCEEDED", True, 3, ())
    assert result.checkpoints == LONG
    stored = [key for key in world.store.buckets["ray"] if key.startswith(RECEIPTS_PREFIX)]
    assert len(stored) == 3
    assert world.healthy()


def test_each_receipt_is_about_its_own_fault_alone(world: Drill) -> None:
    Training(world, epochs=LONG)

    result = chaos(world, steps("kill", "stop", "kill"))

    receipts = [step.receipt for step in result.steps if step.receipt]
    resumed = [next(c.detail for c in r.checks if c.name == "resumed, not restarted") for r in receipts]
    assert [detail.split(" began")[0] for detail in resumed] == ["attempt 2", "attempt 3", "attempt 4"]
    assert all(";" not in detail for detail in resumed)
    assert all(0 < (r.timeline.first_report or 0) < 8 for r in receipts)
    assert all(0 < (r.timeline.node_rejoined or 0) < 20 for r in receipts)


def test_a_freeze_that_nobody_noticed_is_not_credited_with_the_recovery_from_the_next_fault(
    world: Drill,
) -> None:
    Training(world, epochs=LONG)
    plan = Plan(written=(Step(5.0, "pause", parameters={"for": 0.1}), Step(12.0, "kill")))

    result = chaos(world, plan)

    assert verdicts(result) == ["not-verified", "recovered"]
    first = result.steps[0].receipt
    assert first is not None
    assert (first.timeline.first_report, first.timeline.node_dead, first.lost_epochs) == (None, None, None)
    assert "nothing had to recover" in first.reason
    assert not result.good


def test_downtime_and_repeated_work_are_summed(world: Drill) -> None:
    Training(world, epochs=LONG)

    result = chaos(world, steps("kill", "stop"))

    downtimes = [step.downtime for step in result.steps]
    assert all(d is not None and 1 < d < 8 for d in downtimes)
    assert result.downtime == pytest.approx(sum(d for d in downtimes if d))
    assert result.repeated == 0


def test_faults_are_drawn_until_the_job_ends(world: Drill) -> None:
    Training(world, epochs=LONG)

    result = chaos(world, Plan(("kill", "stop"), every=10, seed=7))

    assert len(result.injected) >= 4
    assert result.good
    drawn = [step.kind for step, _ in zip(result.plan.steps(), result.steps, strict=False)]
    assert [step.step.kind for step in result.steps] == drawn


def test_the_same_seed_does_the_same_to_the_same_ranks_at_the_same_times(world: Drill) -> None:
    Training(world, epochs=40)
    plan = Plan(("kill", "stop"), every=10, seed=7, limit=3)
    result = chaos(world, plan)
    again = Drill()
    Training(again, epochs=40)

    other = chaos(again, plan)

    did = [(s.step, s.target, s.receipt.fault.at - result.began) for s in result.injected if s.receipt]
    repeated = [(s.step, s.target, s.receipt.fault.at - other.began) for s in other.injected if s.receipt]
    assert [d[:2] for d in did] == [r[:2] for r in repeated]
    assert [d[2] for d in did] == pytest.approx([r[2] for r in repeated], abs=0.5)


def test_the_rank_that_the_draw_falls_on_is_hit(world: Drill) -> None:
    Training(world, epochs=30, ranks=2, cpus=2.0, on=(W0, W1))
    plan = Plan(written=(Step(3.0, "stop", share=0.7),))

    assert chaos(world, plan).steps[0].target == W1


class Hits(Kill):
    """Takes a rank, as rank-kill does, and only notes which."""

    kind = RankKill.kind

    def __init__(self) -> None:
        self.hit: list[int] = []

    def inject(self, scene: Scene) -> None:
        self.hit.append(rank_on_target(scene).rank)

    def revert(self, scene: Scene) -> None:
        """There is nothing to undo."""


@pytest.mark.parametrize(
    ("step", "rank"),
    [
        (Step(3.0, "rank-kill", share=0.9), 1),
        (Step(3.0, "rank-kill"), 0),
        (Step(3.0, "rank-kill", share=0.9, parameters={"rank": 0}), 0),
        (Step(3.0, "rank-kill", W0, share=0.9), 0),  # it names the node, so the lowest there
    ],
)
def test_of_two_ranks_on_one_node_the_one_that_the_draw_falls_on_is_hit(
    world: Drill, monkeypatch: pytest.MonkeyPatch, step: Step, rank: int
) -> None:
    Training(world, epochs=30, ranks=2, on=(W0,))
    fault = Hits()
    monkeypatch.setitem(FAULTS, "rank-kill", lambda: fault)

    result = chaos(world, Plan(written=(step,)))

    assert fault.hit == [rank]
    assert result.steps[0].target == W0


class Slow(Training):
    """Reports every 40 s, and counts in steps of 100."""

    seconds = 0

    def epoch(self) -> None:
        self.seconds += 1
        if self.seconds % 40:
            self.world.clock.after(1.0, self.epoch)
        else:
            super().epoch()

    def write(self, event: str, **fields: Any) -> None:
        if "metrics" in fields:
            fields["metrics"] = {"step": 100 * self.done}
        super().write(event, **fields)


class Fires(Hits):
    """Armed as exception-at-epoch is; fires when the training gets there."""

    kind = ExceptionAtEpoch.kind
    fires = True

    def __init__(self, training: Slow) -> None:
        super().__init__()
        self.training = training
        self.armed: list[tuple[float, int]] = []

    def inject(self, scene: Scene) -> None:
        self.armed.append((scene.parameters["epoch"], 100 * self.training.done))
        self.wait(scene.parameters["epoch"])

    def wait(self, epoch: float) -> None:
        if 100 * self.training.done >= epoch:
            self.training.write("fault_fired", kind="exception", epoch=epoch)
        else:
            self.training.world.clock.after(1.0, lambda: self.wait(epoch))


@pytest.mark.parametrize("given", [{}, {"epoch": 1200.0}])
def test_an_armed_fault_is_waited_for_as_long_as_its_reports_take(
    world: Drill, monkeypatch: pytest.MonkeyPatch, given: dict[str, float]
) -> None:
    fault = Fires(Slow(world, epochs=30))
    monkeypatch.setitem(FAULTS, "exception-at-epoch", lambda: fault)

    result = chaos(world, Plan(written=(Step(100.0, "exception-at-epoch", parameters=given),)))

    ((epoch, reached),) = fault.armed
    assert epoch == given.get("epoch", reached + 400)
    assert [step.skipped for step in result.steps] == [""]


def test_an_armed_fault_is_waited_for_before_a_second_report_says_how_long_one_takes(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = Fires(Slow(world, epochs=30))
    monkeypatch.setitem(FAULTS, "exception-at-epoch", lambda: fault)

    result = chaos(world, Plan(written=(Step(1.0, "exception-at-epoch", parameters={"epoch": 500}),)))

    assert fault.armed == [(500.0, 100)]
    assert [step.skipped for step in result.steps] == [""]


def test_a_fault_comes_once_training_goes_on_from_the_one_before(world: Drill) -> None:
    Training(world, epochs=LONG, takeover=6.0)

    result = chaos(world, steps("kill", "stop", every=1.0))

    first, second = (step.receipt for step in result.steps)
    assert first
    assert second
    assert second.fault.at > first.fault.at + (first.timeline.first_report or 99)
    assert second.fault.at > (first.fault.reverted_at or 0)
    assert verdicts(result) == ["recovered", "recovered"]


def test_nothing_is_injected_after_the_time_is_over_though_the_faults_took_longer(world: Drill) -> None:
    Training(world, epochs=LONG, takeover=6.0)

    result = chaos(world, steps(*["kill"] * 20, every=1.0, seconds=20.0))

    begun = [s.receipt.fault.at - result.began for s in result.injected if s.receipt]
    assert 2 <= len(begun) <= 3
    assert max(begun) <= 20
    assert result.good


def test_the_last_healthy_worker_is_spared(world: Drill) -> None:
    world.runtime.down()
    world.runtime.up(LabSpec(workers=1, cpus_per_worker=2))
    world.clock.sleep(5)
    Training(world, epochs=LONG)

    result = chaos(world, steps("kill", "stop"))

    assert verdicts(result) == [f"{W0} is the last healthy worker"] * 2
    assert len(texts(world, "left out")) == 2
    assert not result.good
    assert not [name for name, _ in world.calls() if name in ("kill", "stop")]


def test_the_last_healthy_worker_is_taken_when_that_is_asked_for(world: Drill) -> None:
    world.runtime.down()
    world.runtime.up(LabSpec(workers=1, cpus_per_worker=2))
    world.clock.sleep(5)
    Training(world, epochs=LONG)

    assert verdicts(chaos(world, steps("kill", below_one=True))) == ["recovered"]


def test_what_a_step_names_and_the_job_does_not_use_is_left_out(world: Drill) -> None:
    Training(world, epochs=30)
    plan = Plan(written=(Step(2.0, "kill", W1), Step(4.0, "kill", W0)))

    result = chaos(world, plan)

    assert verdicts(result)[0].startswith(f"{W1} runs no part of job {JOB}")
    assert verdicts(result)[1] == "recovered"
    assert result.good


def test_no_fault_comes_to_a_job_that_is_about_to_end(world: Drill) -> None:
    Training(world, epochs=20)

    result = chaos(world, Plan(written=(Step(3.0, "kill"), Step(16.0, "stop"))))

    assert verdicts(result)[0] == "recovered"
    assert verdicts(result)[1].startswith("the job ends in about ")
    assert result.good


def test_a_job_that_ends_early_ends_the_chaos(world: Drill) -> None:
    Training(world, epochs=30)

    result = chaos(world, Plan(written=(Step(10.0, "kill"), Step(60.0, "stop"))))

    assert len(result.steps) == 1
    assert result.good


def test_a_fault_that_ended_the_job_keeps_its_receipt(world: Drill) -> None:
    training = Training(world, epochs=LONG)

    def fail() -> None:
        training.write("run_finished", error="WorkerGroupError")
        world.jobs.become("FAILED", at=world.clock())

    world.clock.after(12.0, fail)

    result = chaos(world, Plan(written=(Step(4.0, "kill"), Step(9.5, "pause"), Step(30.0, "stop"))))

    assert result.status == "FAILED"
    assert verdicts(result) == ["recovered", "failed"]
    assert not result.good


def test_a_job_that_does_not_go_on_gets_no_more_faults(world: Drill) -> None:
    training = Training(world, epochs=LONG, takeover=1e6)

    result = chaos(world, steps("kill", "stop", "stop"))

    assert verdicts(result) == ["not-verified"]
    assert result.problems[0].startswith("no more faults from number 2 on: training has not gone on for 30")
    assert "attempt 1 has ended, and no other has begun" in result.problems[0]
    assert result.problems[1].startswith("the job makes no progress, nothing has moved for 30")
    assert training.attempt == 1
    assert not result.good


def test_a_service_that_stays_ill_ends_the_faults(world: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    Training(world, epochs=LONG)
    monkeypatch.setattr("lab.ext.chaos.waiting.STEADY_SECONDS", 20.0)
    world.clock.after(6.0, lambda: world.runtime.stop("jupyter"))

    result = chaos(world, steps("kill"))

    assert result.steps == ()
    assert "jupyter did not become healthy" in result.problems[0]


def test_a_fault_that_cannot_be_injected_is_left_out(world: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Kill):
        def inject(self, scene: Scene) -> None:
            raise ServiceError("nothing answers")

    Training(world, epochs=LONG)
    monkeypatch.setitem(FAULTS, "stop", Broken)

    result = chaos(world, steps("stop", "kill"))

    assert verdicts(result) == ["nothing answers", "recovered"]
    assert ActiveFaults(world.runtime.folder()).lasting() == ()


def test_a_fault_that_cannot_be_injected_nor_undone_has_its_receipt_and_is_left_to_heal(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Kill):
        def inject(self, scene: Scene) -> None:
            raise ServiceError("nothing answers")

        def revert(self, scene: Scene) -> None:
            raise ServiceError("nothing answers at all")

    Training(world, epochs=LONG)
    monkeypatch.setitem(FAULTS, "stop", Broken)

    result = chaos(world, steps("stop"))

    receipt = result.steps[0].receipt
    assert receipt
    assert receipt.problems == (
        "the fault could not be injected: nothing answers",
        "the fault could not be reverted: nothing answers at all",
    )
    assert [entry.kind for entry in left_undone(world.runtime, world.runtime.status()).faults] == ["kill"]


def test_a_revert_that_fails_is_tried_again(world: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    class Hard(Kill):
        tried = 0

        def revert(self, scene: Scene) -> None:
            Hard.tried += 1
            if Hard.tried < 3:
                raise ServiceError("the machine is too busy")
            super().revert(scene)

    Training(world, epochs=LONG)
    monkeypatch.setitem(FAULTS, "stop", Hard)

    result = chaos(world, steps("stop", "kill"))

    assert verdicts(result) == ["recovered", "recovered"]
    assert [text.split(":")[0] for text in texts(world, "starting")] == [
        f"ray-worker-0 is restored again (try {number} of 3)" for number in (2, 3)
    ]
    assert ActiveFaults(world.runtime.folder()).lasting() == ()


def test_a_revert_that_keeps_failing_ends_the_faults(world: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    class Impossible(Kill):
        def revert(self, scene: Scene) -> None:
            raise ServiceError("the machine is too busy")

    Training(world, epochs=LONG)
    monkeypatch.setitem(FAULTS, "stop", Impossible)
    monkeypatch.setattr("lab.ext.chaos.waiting.STEADY_SECONDS", 15.0)

    result = chaos(world, steps("stop", "kill"))

    receipt = result.steps[0].receipt
    assert receipt
    assert (receipt.verdict.value, receipt.fault.reverted_at) == ("failed", None)
    assert receipt.problems == ("the fault could not be reverted: the machine is too busy",)
    assert "did not become healthy" in result.problems[0]
    assert [entry.kind for entry in left_undone(world.runtime, world.runtime.status()).faults] == ["kill"]


def test_checkpoints_that_are_gone_or_changed_are_lost(world: Drill) -> None:
    training = Training(world, epochs=LONG)

    def damage() -> None:
        objects = world.store.buckets["ray"]
        del objects["run/checkpoint_000007/data"]
        objects["run/checkpoint_000009/data"] = (b"other weights", world.clock())

    world.clock.after(30.0, damage)
    result = chaos(world, steps("kill"))

    assert result.lost == (training.uri(7), training.uri(9))
    assert not result.good


def test_checkpoints_that_training_deletes_itself_are_not_lost(world: Drill) -> None:
    Training(world, epochs=LONG)

    def keep_two() -> None:
        for key in [k for k in world.store.buckets["ray"] if "checkpoint_" in k][:-2]:
            del world.store.buckets["ray"][key]

    world.clock.after(40.0, keep_two)
    assert chaos(world, steps("kill")).lost == ()


class KeepsBest(Training):
    """Keeps the two best checkpoints, and the newest."""

    def begin(self) -> None:
        plan = {"num_to_keep": 2, "checkpoint_score_attribute": "val_acc"}
        self.world.write("run_started", self.job, run=self.run, num_workers=1, max_failures=-1, **plan)
        self.start_on(self.on)


def delete_but(world: Drill, *kept: str) -> None:
    """Every other checkpoint is gone, once the job has ended."""
    if not world.jobs.get(JOB).final:
        world.clock.after(0.1, lambda: delete_but(world, *kept))
        return
    for key in [k for k in world.store.buckets["ray"] if "checkpoint_" in k]:
        if f"s3://ray/{key}".rsplit("/", 1)[0] not in kept:
            del world.store.buckets["ray"][key]


@pytest.mark.parametrize(("newest", "lost"), [(30, ()), (29, (30,))])
def test_of_a_training_that_keeps_the_best_only_the_newest_can_be_lost(
    world: Drill, newest: int, lost: tuple[int, ...]
) -> None:
    training = KeepsBest(world, epochs=30)
    delete_but(world, training.uri(4), training.uri(newest))
    assert chaos(world, steps("kill")).lost == tuple(training.uri(n) for n in lost)


def test_of_one_that_keeps_the_newest_those_after_an_older_one_are_lost(world: Drill) -> None:
    training = Training(world, epochs=30)
    delete_but(world, training.uri(4), training.uri(29), training.uri(30))
    assert chaos(world, steps("kill")).lost == tuple(training.uri(n) for n in range(5, 29))


def test_all_checkpoints_gone_means_the_newest_is_lost(world: Drill) -> None:
    training = Training(world, epochs=30)

    def delete() -> None:
        if not world.jobs.get(JOB).final:
            world.clock.after(0.1, delete)
            return
        for key in [k for k in world.store.buckets["ray"] if "checkpoint_" in k]:
            del world.store.buckets["ray"][key]

    delete()
    assert chaos(world, steps("kill")).lost[-1:] == (training.uri(30),)


def test_a_checkpoint_that_cannot_be_read_back_is_a_problem_and_not_lost(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StoreError("the store does not answer")

    Training(world, epochs=30)
    monkeypatch.setattr("lab.cluster.checkpoints.stored_manifest", away)

    result = chaos(world, steps("kill"))

    assert result.lost == ()
    assert "could not be read back: the store does not answer" in result.problems[0]


def test_what_the_job_survives_is_compared_with_what_may_come(world: Drill) -> None:
    Training(world, epochs=LONG, max_failures=1)

    chaos(world, steps("kill", "stop"))

    assert "gives up after 1 failures, and 2 faults may come" in texts(world, "note")[0]


@pytest.mark.parametrize("most", [-1, 2, 3])
def test_nothing_is_said_of_a_job_that_survives_them_all(world: Drill, most: int) -> None:
    Training(world, epochs=LONG, max_failures=most)
    chaos(world, steps("kill", "stop"))
    assert texts(world, "note") == []


# Before anything starts


def test_without_a_job_the_line_to_type_is_told(world: Drill) -> None:
    with pytest.raises(RefusedError, match="no job is running") as caught:
        chaos(world, steps("kill"))
    assert "labctl submit digits -p epochs=200 -p max-failures=-1 --detach" in caught.value.hint


def test_a_job_that_has_ended_is_refused(world: Drill) -> None:
    world.jobs.become("SUCCEEDED")
    with pytest.raises(RefusedError, match="has ended"):
        chaos(world, steps("kill"), job=JOB)


def test_a_job_that_never_trains_is_waited_for_and_refused(world: Drill) -> None:
    world.jobs.become("PENDING")
    with pytest.raises(WaitTimeoutError, match="300 s"):
        chaos(world, steps("kill"))


def test_a_job_that_ends_before_it_trains_is_refused(world: Drill) -> None:
    world.jobs.become("RUNNING")
    world.clock.after(5.0, lambda: world.jobs.become("FAILED", at=world.clock()))
    with pytest.raises(RefusedError, match=r"\(FAILED\) before any fault"):
        chaos(world, steps("kill"))


def test_what_cannot_be_on_this_runtime_is_refused(world: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    Training(world, epochs=LONG)
    monkeypatch.setattr(type(world.runtime), "missing", lambda self, feature: "one network for all")
    with pytest.raises(UnsupportedError, match="one network"):
        chaos(world, Plan(("kill", "partition")))
    assert world.calls() == []


def test_a_step_with_an_unknown_target_is_refused(world: Drill) -> None:
    Training(world, epochs=LONG)
    with pytest.raises(NotFoundError, match="'ray-worker-9'"):
        chaos(world, Plan(written=(Step(1.0, "kill", "ray-worker-9"),)))


# Interrupts


def test_an_interrupt_undoes_the_fault_and_judges_what_was_done(world: Drill) -> None:
    Training(world, epochs=LONG)

    def interrupt(moment: Moment) -> None:
        world.moments.append(moment)
        if texts(world, "fault")[1:] and moment.key == "node_dead":
            raise KeyboardInterrupt

    result = chaos(world, steps("kill", "stop", "kill"), on_moment=interrupt)

    assert isinstance(result.interrupt, KeyboardInterrupt)
    assert [step.step.kind for step in result.injected] == ["kill", "stop"]
    assert verdicts(result) == ["not-verified"] * 2
    last = result.injected[-1].receipt
    assert last is not None
    assert last.reason.startswith("the chaos run was interrupted")
    assert ("judging", "2 faults") in [(moment.key, moment.text) for moment in world.moments]
    assert world.healthy()
    assert result.document().interrupted
    assert not result.good


def test_an_interrupt_between_two_faults_ends_the_chaos(world: Drill) -> None:
    Training(world, epochs=LONG)

    def interrupt(moment: Moment) -> None:
        if moment.key == "to the end":
            raise KeyboardInterrupt

    result = chaos(world, steps("kill"), on_moment=interrupt)
    assert (len(result.injected), result.status) == (1, "RUNNING")


def test_a_lab_that_is_stopped_meanwhile_is_told(world: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    Training(world, epochs=LONG)
    monkeypatch.setattr(Training, "lives", lambda self, service: True)

    def down() -> None:
        world.runtime.down()
        world.api.silence()

    world.clock.after(5.0, down)
    with pytest.raises(LabDownError, match="was taken down meanwhile"):
        chaos(world, steps("kill", every=20.0))


# The control run


@dataclass
class Compared:
    weights: Likeness
    history: History = field(default_factory=lambda: History(()))

    def document(self) -> ControlDocument:
        curves = CurvesDocument("epoch", True, True, 0.0, "", {})
        return ControlDocument("control", 1.0, self.weights, "", curves)


def control(weights: Likeness) -> Any:
    return lambda *_, **__: Compared(weights)


@pytest.mark.parametrize(("weights", "good"), [("equal", True), ("different", False), ("unknown", False)])
def test_the_weights_are_compared_with_an_undisturbed_run(
    world: Drill, monkeypatch: pytest.MonkeyPatch, weights: Likeness, good: bool
) -> None:
    Training(world, epochs=LONG)
    monkeypatch.setattr("lab.ext.chaos.run.run_control", control(weights))

    result = chaos(world, steps("kill"), control=True)

    assert (result.weights, result.good) == (weights, good)
    control_run = result.document().control
    assert control_run is not None
    assert control_run.weights == weights


def test_a_control_run_that_went_on_for_longer_tells_that_epochs_were_lost(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    Training(world, epochs=LONG)
    longer = tuple(
        Event("report", float(n), "c", "run", 1, 0, "", {"metrics": {"epoch": n}}) for n in range(1, LONG + 2)
    )
    monkeypatch.setattr(
        "lab.ext.chaos.run.run_control", lambda *_, **__: Compared("equal", History.of(longer))
    )

    result = chaos(world, steps("kill"), control=True)

    assert verdicts(result) == ["failed"]
    assert not result.good


def test_a_control_run_that_fails_does_not_take_the_receipts_away(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> Control:
        raise JobError("the undisturbed run ended FAILED")

    Training(world, epochs=LONG)
    monkeypatch.setattr("lab.ext.chaos.run.run_control", fails)

    result = chaos(world, steps("kill"), control=True)

    assert verdicts(result) == ["recovered"]
    assert "no control run to compare with: the undisturbed run ended FAILED" in result.problems[0]
    assert not result.good


def test_without_a_job_that_succeeded_nothing_is_compared(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    Training(world, epochs=LONG)
    world.clock.after(30.0, lambda: world.jobs.become("STOPPED", at=world.clock()))
    monkeypatch.setattr("lab.ext.chaos.run.run_control", control("equal"))

    result = chaos(world, steps("kill"), control=True)

    assert (result.status, result.control, result.good) == ("STOPPED", None, False)


def test_the_result_is_kept_in_the_store(world: Drill) -> None:
    import json

    Training(world, epochs=LONG)
    result = chaos(world, steps("kill"))
    (key,) = [k for k in world.store.buckets["ray"] if k.startswith(".raylab/chaos/")]
    assert json.loads(world.store.buckets["ray"][key][0]) == json.loads(json.dumps(plain(result.document())))
    assert result.document().faults == FaultCounts(injected=1, survived=1, skipped=0)
