"""From the fault to the receipt: what is told, when the fault is reverted, what is kept."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import replace
from typing import Any, cast

import pytest

from lab.api.base import plain
from lab.cluster import checkpoints
from lab.cluster.allocation import Snapshot
from lab.cluster.allocation.snapshot import Task
from lab.cluster.queues import WORKLOAD
from lab.errors import (
    EngineError,
    LabDownError,
    LabError,
    RefusedError,
    ServiceError,
    StoreError,
    UsageError,
)
from lab.evidence.receipt import Verdict
from lab.faults import FAULTS, Scene, find_fault
from lab.faults.kinds.kill import Kill
from lab.faults.records import FAULTS_PREFIX, LoggedFault, read_fault
from lab.flows.recovery import Moment
from lab.flows.recovery.heal import heal
from lab.flows.recovery.injection import TOOK_SECONDS
from lab.flows.recovery.lost import recorded_faults
from lab.flows.recovery.timeline import LiveTimeline
from lab.runtime.active_faults import ActiveFaults, left_undone
from lab.runtime.base import OnProgress
from lab.runtime.starting import again
from lab.services import JUPYTER
from lab.topology import RECEIPTS_PREFIX, LabStatus, Progress, State, Struck
from tests.fakes import FakeRuntime
from tests.unit.data.failures import FAILED, LOGS
from tests.unit.fakes import job
from tests.unit.flows.world import JOB, W0, W1, Drill, Training


@pytest.fixture
def only_one_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """A revert that fails is not tried again."""
    monkeypatch.setattr("lab.flows.recovery.revert.TRIES", 1)


def test_a_killed_worker_is_recovered_from_and_the_proof_is_complete(world: Drill) -> None:
    Training(world)

    outcome = world.inject(after_epoch=3)

    receipt = outcome.receipt
    assert receipt is not None
    assert receipt.verdict is Verdict.RECOVERED, receipt
    assert all(check.passed for check in receipt.checks)
    assert [a.nodes for a in receipt.attempts] == [(W0,), (W1,)]
    assert outcome.fault.reverted_at is not None
    assert world.healthy()


def test_a_script_that_begins_again_is_exposed(world: Drill) -> None:
    Training(world, resumes=False)

    receipt = world.inject(after_epoch=3).receipt

    assert receipt is not None
    assert receipt.verdict is Verdict.RESTARTED


def test_moments_come_in_order_and_each_once(world: Drill) -> None:
    Training(world)

    world.inject(after_epoch=2)

    keys = [key for key in world.moment_keys() if key != "progress"]
    assert len(keys) == len(set(keys))
    story = [
        "waiting",
        "fault",
        "node_dead",
        "failure_detected",
        "attempt_started",
        "restored",
        "first_report",
    ]
    assert [key for key in keys if key in story] == story
    assert keys[-1] == "job_finished"
    assert {"reverted", "node_rejoined"} < set(keys)
    after = [m for m in world.moments if m.seconds is not None]
    assert after[0] == Moment("fault", 0.0, "kill ray-worker-0")
    assert all(moment.seconds is not None and moment.seconds >= 0 for moment in after)


def test_every_epoch_is_told_once_after_the_recovery(world: Drill) -> None:
    Training(world, epochs=9)

    world.inject(after_epoch=3)

    texts = [m.text for m in world.moments if m.key == "progress" and m.seconds is not None]
    assert texts[-1] == "epoch 9 of 9"
    assert len(texts) == len(set(texts))


def test_epochs_that_count_from_0_are_told_so(world: Drill) -> None:
    Training(world, epochs=8, planned=9, first=0)

    world.inject(after_epoch=3)

    texts = [m.text for m in world.moments if m.key == "progress" and m.seconds is not None]
    assert texts[-1] == "epoch 8 (9 of 9, counted from 0)"


def test_steps_are_not_told_as_epochs_of_the_plan(world: Drill) -> None:
    Training(world, epochs=9, key="step")

    world.inject(after_epoch=3)

    assert "step 9" in [m.text for m in world.moments]


def test_a_script_that_reports_no_epoch_is_followed_too(world: Drill) -> None:
    Training(world, key=None)

    world.inject()

    texts = {m.key: m.text for m in world.moments}
    assert texts["first_report"] == "reports again"
    assert world.moment_keys()[-1] == "job_finished"


def test_a_killed_node_comes_back_once_training_goes_on_elsewhere(world: Drill) -> None:
    Training(world)

    world.inject(after_epoch=2)

    first = next(m for m in world.moments if m.key == "first_report")
    assert first.seconds is not None
    assert world.when("start") - world.when("kill") == pytest.approx(first.seconds, abs=0.6)
    assert [name for name, _ in world.calls()] == ["kill", "start"]


def test_a_killed_node_comes_back_at_once_when_the_rest_cannot_hold_the_ranks(world: Drill) -> None:
    Training(world, ranks=2, cpus=2.0, on=(W0, W1))

    receipt = world.inject(after_epoch=2).receipt

    dead = next(m for m in world.moments if m.key == "node_dead")
    assert dead.seconds is not None
    assert world.when("start") - world.when("kill") == pytest.approx(dead.seconds, abs=0.8)
    assert world.when("start") - world.when("kill") < 4.0
    assert receipt is not None
    assert receipt.verdict is Verdict.RECOVERED, receipt


def test_a_killed_node_stays_down_while_the_rest_can_hold_the_ranks(world: Drill) -> None:
    Training(world, ranks=2, cpus=1.0, on=(W0, W1), takeover=5.0)

    world.inject(after_epoch=2)

    assert world.when("start") - world.when("kill") > 5.0


def test_a_killed_node_comes_back_in_the_end_although_training_does_not_go_on(world: Drill) -> None:
    Training(world, takeover=1000.0)

    receipt = world.inject(after_epoch=2, timeout=60.0).receipt

    assert world.when("start") - world.when("kill") == pytest.approx(Kill.patience, abs=0.6)
    assert receipt is not None
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert world.clock() - world.begin == pytest.approx(63.0, abs=3.0)


def test_a_training_that_the_fault_did_not_stop_is_followed_to_its_end(world: Drill) -> None:
    Training(world, epochs=90)

    receipt = world.inject(W0, "pause", after_epoch=2, duration=0.5, timeout=10.0).receipt

    assert receipt is not None
    assert receipt.job.status == "SUCCEEDED"
    assert len(receipt.attempts) == 1
    assert "ended before Ray noticed it" in receipt.reason


class Stalls(Training):
    """A job whose loop waits for ever after its eighth epoch."""

    def epoch(self) -> None:
        if self.done < 8:
            super().epoch()


def test_a_job_that_has_recovered_and_is_silent_is_left_after_the_timeout(world: Drill) -> None:
    Stalls(world, epochs=900)

    receipt = world.inject(after_epoch=2, timeout=40.0).receipt

    assert receipt is not None
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert "still running: nothing has moved for 40 s: attempt 2 has reported epoch 8" in receipt.reason
    assert world.clock() - world.begin < 70.0


def test_a_duration_decides_when_the_node_comes_back(world: Drill) -> None:
    Training(world, epochs=30)

    outcome = world.inject(after_epoch=2, duration=12.0)

    assert world.when("start") - world.when("kill") == pytest.approx(12.0, abs=0.3)
    assert outcome.fault.parameters == {"for": 12.0}


def test_a_duration_longer_than_the_timeout_is_kept(world: Drill) -> None:
    Training(world, takeover=1000.0)

    world.inject(after_epoch=2, duration=40.0, timeout=10.0)

    assert world.when("start") - world.when("kill") == pytest.approx(40.0, abs=0.3)


def test_a_pause_ends_after_its_own_duration_and_the_node_joins_anew(world: Drill) -> None:
    Training(world, epochs=30)

    receipt = world.inject(W0, "pause", after_epoch=2).receipt

    assert world.when("resume") - world.when("pause") == pytest.approx(10.0, abs=0.3)
    assert receipt is not None
    assert receipt.verdict is Verdict.RECOVERED, receipt
    assert world.healthy()


def test_a_stopped_node_comes_back(world: Drill) -> None:
    Training(world)

    receipt = world.inject(W0, "stop", after_epoch=2).receipt

    assert [name for name, _ in world.calls()] == ["stop", "start"]
    assert receipt is not None
    assert receipt.verdict is Verdict.RECOVERED, receipt


def test_a_job_that_ends_during_the_fault_is_judged_and_the_node_comes_back(world: Drill) -> None:
    Training(world, takeover=1000.0)
    world.clock.after(8.0, lambda: world.jobs.become("FAILED", at=world.clock()))

    receipt = world.inject(after_epoch=2).receipt

    assert receipt is not None
    assert receipt.verdict is Verdict.FAILED
    assert world.when("start") == pytest.approx(8.0, abs=0.8)
    assert world.moment_keys()[-1] == "job_finished"
    assert world.healthy()


def test_the_cause_of_a_failed_job_stands_in_its_receipt(world: Drill) -> None:
    Training(world, takeover=1000.0)
    log = LOGS["no-failures"][0]

    def fail() -> None:
        world.jobs.become("FAILED", at=world.clock(), message=f"{FAILED}{log[-300:]}")
        world.jobs.output[JOB] = log

    world.clock.after(8.0, fail)
    receipt = world.inject(after_epoch=2).receipt
    assert receipt is not None
    assert receipt.verdict is Verdict.FAILED
    why = "training lost a rank, and its RunConfig allows no failure (max_failures 0, Ray's default)"
    assert receipt.reason == f"the job is FAILED: {why}"


# Whatever happens, the fault is reverted


@pytest.mark.parametrize("kind", ["kill", "stop", "pause"])
@pytest.mark.parametrize("key", ["fault", "node_dead", "first_report", "job_finished"])
def test_ctrl_c_at_any_moment_reverts_the_fault(world: Drill, kind: str, key: str) -> None:
    Training(world, epochs=20)

    def interrupt(moment: Moment) -> None:
        if moment.key == key:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.inject(W0, kind, after_epoch=2, on_moment=interrupt)
    assert world.healthy()
    document = kept(world)
    assert document["verdict"] == "not-verified"
    assert "the recovery was not followed to its end: it was interrupted" in document["problems"]
    assert recorded(world) == [kind]


def test_a_second_ctrl_c_leaves_the_fault_and_says_so(world: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    Training(world)
    noted, over = threading.Event(), threading.Event()

    def slow(service: str, on_progress: OnProgress, *, wait: bool = True) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        assert noted.wait(30)
        os.kill(os.getpid(), signal.SIGINT)
        assert over.wait(30)

    def listen(moment: Moment) -> None:
        world.moments.append(moment)
        if moment.text == "kill of ray-worker-0 is undone first; another interrupt leaves it as it is":
            noted.set()

    monkeypatch.setattr(world.runtime, "start", slow)
    with pytest.raises(KeyboardInterrupt):
        world.inject(after_epoch=2, on_moment=listen)
    assert "ray-worker-0 is still under the fault: labctl heal undoes it" in [m.text for m in world.moments]
    assert [entry.target for entry in left_undone(world.runtime, world.runtime.status()).faults] == [W0]
    over.set()


def test_a_fault_of_a_lab_that_is_taken_down_meanwhile_is_left_to_nobody(world: Drill) -> None:
    Training(world, takeover=1000.0)

    def down() -> None:
        world.runtime.down()
        world.api.silence()

    world.clock.after(8.0, down)
    receipt = world.inject(after_epoch=2).receipt
    assert receipt is not None
    assert receipt.verdict is not Verdict.RECOVERED
    assert any("lab raylab was taken down meanwhile" in problem for problem in receipt.problems)
    assert not any("labctl heal" in moment.text for moment in world.moments)
    assert ActiveFaults(world.runtime.folder()).lasting() == ()
    assert world.clock() - world.begin < 60.0


def kept(world: Drill) -> dict[str, Any]:
    """The one receipt in the store."""
    (entry,) = world.store.list(f"{RECEIPTS_PREFIX}/")
    document: dict[str, Any] = json.loads(world.store.get(entry.key))
    return document


def recorded(world: Drill) -> list[str]:
    """The faults on record for the job; each has been reverted."""
    faults = recorded_faults(world.store, JOB)
    assert all(fault.reverted_at is not None for fault in faults)
    return [fault.kind for fault in faults]


class SlowToAct(Kill):
    """It looks for the processes for a while before the first signal."""

    seconds = 3.0

    def inject(self, scene: Scene) -> Struck | None:
        cast("FakeRuntime", scene.runtime).clock.sleep(self.seconds)
        return super().inject(scene)


def test_a_fault_counts_from_its_first_signal(world: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    Training(world, epochs=30)
    monkeypatch.setitem(FAULTS, "kill", SlowToAct)
    receipt = world.inject(after_epoch=2).receipt
    assert receipt is not None
    assert receipt.verdict is Verdict.RECOVERED, receipt.reason
    assert receipt.fault.at == world.begin + world.when("kill")
    assert receipt.fault.done_at == receipt.fault.at
    assert recorded(world) == ["kill"]
    (fault,) = recorded_faults(world.store, JOB)
    assert fault.at == receipt.fault.at
    assert not ActiveFaults(world.runtime.folder()).left()


def test_ctrl_c_while_a_fault_is_injected_counts_as_a_fault(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(Kill):
        def inject(self, scene: Scene) -> None:
            super().inject(scene)
            raise KeyboardInterrupt

    Training(world)
    monkeypatch.setitem(FAULTS, "kill", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        world.inject(after_epoch=2)
    assert world.healthy()
    assert kept(world)["fault"]["kind"] == "kill"
    assert recorded(world) == ["kill"]


@pytest.mark.parametrize("where", ["inject", "look"])
def test_a_bug_after_the_fault_began_is_raised_after_a_receipt_was_kept(
    world: Drill, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    Training(world)
    if where == "look":
        look = LiveTimeline.look
        monkeypatch.setattr(
            LiveTimeline, "look", lambda self: broken() if "node_dead" in self.emitted else look(self)
        )
    else:
        monkeypatch.setattr(Kill, "inject", broken)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        world.inject(after_epoch=2)
    problem = "the recovery was not followed to its end: ZeroDivisionError('a bug')"
    assert problem in kept(world)["problems"]
    assert recorded(world) == ["kill"]
    assert world.healthy()


def test_ctrl_c_while_the_evidence_is_collected_costs_no_receipt(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    Training(world)
    read, calls = checkpoints.stored_manifest, []

    def interrupted(store: Any, uri: str) -> Any:
        calls.append(uri)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return read(store, uri)

    monkeypatch.setattr(checkpoints, "stored_manifest", interrupted)
    with pytest.raises(KeyboardInterrupt):
        world.inject(after_epoch=2)
    assert kept(world)["verdict"] == "not-verified"


def test_without_a_receipt_an_interrupted_fault_is_on_record_all_the_same(world: Drill) -> None:
    Training(world)

    def interrupt(moment: Moment) -> None:
        if moment.key == "fault":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.inject(after_epoch=2, wait=False, on_moment=interrupt)
    assert recorded(world) == ["kill"]
    assert world.store.list(f"{RECEIPTS_PREFIX}/") == ()


def test_a_job_that_vanishes_has_a_receipt(world: Drill) -> None:
    Training(world, takeover=1000.0)
    world.clock.after(8.0, world.jobs.known.clear)

    receipt = world.inject(after_epoch=2).receipt

    assert receipt is not None
    assert receipt.verdict is Verdict.FAILED
    assert "the new head does not know it" in receipt.reason
    assert kept(world) == plain(receipt)
    assert recorded(world) == ["kill"]


def test_services_that_cannot_be_looked_at_in_the_end_are_a_problem_of_the_receipt(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    Training(world)

    def away() -> LabStatus:
        raise EngineError("the Docker Engine does not answer")

    def fail(moment: Moment) -> None:
        if moment.key == "job_finished":
            monkeypatch.setattr(world.runtime, "status", away)

    receipt = world.inject(after_epoch=2, on_moment=fail).receipt

    assert receipt is not None
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert "the state of the services is not known: the Docker Engine does not answer" in receipt.problems


def test_a_runtime_that_does_not_say_whether_the_fault_was_done_leaves_it_on_record(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(Unsure):
        def took(self, scene: Scene) -> bool:
            raise EngineError("no answer")

    Training(world, epochs=30)
    monkeypatch.setitem(FAULTS, "kill", Silent)

    assert world.inject(after_epoch=2).receipt is not None
    assert kept(world)["verdict"] == "not-verified"
    assert recorded(world) == ["kill"]


def test_a_fault_that_was_armed_is_on_record_from_when_it_acted(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Armed(Kill):
        fires = True

        def inject(self, scene: Scene) -> None:
            world.clock.after(3.0, lambda: self.act(scene))

        def act(self, scene: Scene) -> None:
            world.write("fault_fired", rank=0)
            super().inject(scene)

    Training(world, epochs=30)
    monkeypatch.setitem(FAULTS, "kill", Armed)

    outcome = world.inject(after_epoch=2)

    (fault,) = recorded_faults(world.store, JOB)
    assert fault.at == outcome.fault.at
    assert fault.at - world.begin > 5.0


def test_ctrl_c_before_an_armed_fault_acts_is_no_fault(world: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    class Armed(Kill):
        fires = True

        def inject(self, scene: Scene) -> None:
            raise KeyboardInterrupt

    Training(world)
    monkeypatch.setitem(FAULTS, "kill", Armed)
    with pytest.raises(KeyboardInterrupt):
        world.inject(after_epoch=2)
    assert recorded(world) == []
    assert world.store.list(f"{RECEIPTS_PREFIX}/") == ()


class Unsure(Kill):
    """A kill of which the engine says that it failed."""

    error: LabError = EngineError("tried to kill container, but did not receive an exit event")

    def inject(self, scene: Scene) -> None:
        self.hit(scene)
        raise self.error

    def hit(self, scene: Scene) -> None:
        """What was done all the same: nothing."""


class Done(Unsure):
    def hit(self, scene: Scene) -> None:
        scene.runtime.kill(scene.target)


class DoneLater(Unsure):
    def hit(self, scene: Scene) -> None:
        runtime = cast("FakeRuntime", scene.runtime)
        runtime.clock.after(TOOK_SECONDS - 2, lambda: runtime.kill(scene.target))


@pytest.mark.parametrize("kind", [Done, DoneLater])
def test_a_fault_that_was_done_although_its_injection_failed_is_followed_to_its_receipt(
    world: Drill, monkeypatch: pytest.MonkeyPatch, kind: type[Unsure]
) -> None:
    Training(world, epochs=30)
    monkeypatch.setitem(FAULTS, "kill", kind)

    outcome = world.inject(after_epoch=2)

    assert outcome.receipt is not None
    assert outcome.receipt.verdict is Verdict.RECOVERED, outcome.receipt
    (note,) = [moment.text for moment in world.moments if moment.key == "note"]
    assert note.startswith("ray-worker-0 is under it although its injection failed: tried to kill")
    assert world.healthy()


def test_a_fault_that_was_not_injected_has_a_receipt_that_says_so_and_is_not_recorded(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    Training(world, epochs=60)
    monkeypatch.setitem(FAULTS, "kill", Unsure)

    receipt = world.inject(after_epoch=2).receipt

    assert receipt is not None
    assert receipt.verdict is Verdict.NOT_VERIFIED
    (problem,) = receipt.problems
    assert problem.startswith("the fault could not be injected: tried to kill container")
    assert problem in receipt.reason
    assert world.store.exists(f"{RECEIPTS_PREFIX}/{JOB}-{int(receipt.fault.at)}.json")
    assert world.store.list(f"{FAULTS_PREFIX}/") == ()
    assert ActiveFaults(world.runtime.folder()).lasting() == ()
    assert world.healthy()


def test_without_a_receipt_a_fault_that_was_not_injected_is_an_error(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    Training(world)
    monkeypatch.setitem(FAULTS, "kill", Unsure)

    with pytest.raises(EngineError, match="an exit event"):
        world.inject(wait=False)
    assert world.healthy()


def test_what_a_fault_refuses_is_an_error_and_not_a_receipt(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    Training(world)
    monkeypatch.setattr(Unsure, "error", RefusedError("not now"))
    monkeypatch.setitem(FAULTS, "kill", Unsure)

    with pytest.raises(RefusedError, match="not now"):
        world.inject()
    assert world.store.list(f"{RECEIPTS_PREFIX}/") == ()


def test_a_revert_that_fails_is_tried_again_and_the_receipt_says_what_is_then(world: Drill) -> None:
    Training(world)
    world.host.failures["raylab", W0] = ServiceError("the machine is too busy")

    receipt = world.inject(after_epoch=2).receipt

    assert receipt is not None
    assert (receipt.verdict, receipt.problems) == (Verdict.RECOVERED, ())
    texts = [moment.text for moment in world.moments if moment.key == "starting"]
    assert texts == ["ray-worker-0 is restored again (try 2 of 3): the machine is too busy"]


@pytest.mark.parametrize(("back", "verdict"), [(30.0, Verdict.RECOVERED), (300.0, Verdict.FAILED)])
def test_a_service_that_is_silent_at_the_end_is_given_time_and_no_more(
    world: Drill, back: float, verdict: Verdict
) -> None:
    Training(world)
    world.clock.after(12.0, lambda: world.runtime.die(JUPYTER))
    world.clock.after(back, lambda: world.runtime.start(JUPYTER))

    receipt = world.inject(after_epoch=2).receipt

    assert receipt is not None
    assert receipt.verdict is verdict
    waits = [moment.text for moment in world.moments if moment.text.endswith("given 60 s")]
    assert waits == ["jupyter is exited; it is given 60 s"]


def test_a_revert_that_failed_is_left_to_heal_while_this_labctl_goes_on(
    world: Drill, only_one_try: None
) -> None:
    Training(world)
    world.host.failures["raylab", W0] = ServiceError("ray-worker-0 ended while starting")

    receipt = world.inject(after_epoch=2).receipt

    assert receipt is not None
    assert receipt.fault.reverted_at is None
    assert "ray-worker-0 is still under the fault: labctl heal undoes it" in [m.text for m in world.moments]
    (left,) = left_undone(world.runtime, world.runtime.status()).faults
    assert (left.kind, left.target) == ("kill", W0)
    (healed,) = heal(world.lab, clock=world.clock)
    assert healed.problem == ""
    assert world.healthy()
    assert left_undone(world.runtime, world.runtime.status()).faults == ()


def test_a_node_that_is_started_again_by_the_revert_is_told(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    Training(world)
    start = world.runtime.start

    def busy(service: str, on_progress: OnProgress, *, wait: bool = True) -> None:
        for number in (2, 3):
            on_progress(Progress(service, State.STARTING, again(service, number)))
            world.clock.sleep(1.0)
        start(service, on_progress, wait=wait)

    monkeypatch.setattr(world.runtime, "start", busy)
    world.inject(after_epoch=2)

    texts = [moment.text for moment in world.moments if moment.key == "starting"]
    words = "ray-worker-0 is started again: the machine was too busy"
    assert texts == [f"{words} (try 2 of 3)", f"{words} (try 3 of 3)"]


def test_an_interrupt_while_that_is_told_leaves_the_journal_right(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    Training(world)
    start = world.runtime.start

    def busy(service: str, on_progress: OnProgress, *, wait: bool = True) -> None:
        on_progress(Progress(service, State.STARTING, again(service, 2)))
        start(service, on_progress, wait=wait)

    def interrupt(moment: Moment) -> None:
        if moment.key in ("fault", "starting"):
            raise KeyboardInterrupt

    monkeypatch.setattr(world.runtime, "start", busy)
    with pytest.raises(KeyboardInterrupt):
        world.inject(after_epoch=2, on_moment=interrupt)
    assert ActiveFaults(world.runtime.folder()).lasting() == ()


def test_what_fails_while_the_recovery_is_followed_is_a_problem_of_the_receipt(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    Training(world)
    look = LiveTimeline.look

    def lost(self: LiveTimeline) -> None:
        look(self)
        if "node_dead" in self.emitted:
            raise LabDownError("lab raylab is not up")

    monkeypatch.setattr(LiveTimeline, "look", lost)

    receipt = world.inject(after_epoch=2).receipt

    assert receipt is not None
    assert receipt.problems == ("the recovery could not be followed: lab raylab is not up",)
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert world.healthy()


def test_a_node_that_does_not_come_back_is_in_the_receipt_and_rules_recovery_out(
    world: Drill, only_one_try: None
) -> None:
    Training(world)
    world.host.failures["raylab", W0] = ServiceError("ray-worker-0 ended while starting")

    receipt = world.inject(after_epoch=2).receipt

    assert receipt is not None
    assert receipt.verdict.value != "recovered"
    assert "the fault could not be reverted: ray-worker-0 ended while starting" in receipt.problems
    assert "reverted" not in world.moment_keys()


def test_a_node_that_does_not_come_back_is_an_error_where_there_is_no_receipt(
    world: Drill, only_one_try: None
) -> None:
    Training(world)
    world.host.failures["raylab", W0] = ServiceError("ray-worker-0 ended while starting")

    with pytest.raises(ServiceError, match="ended while starting"):
        world.inject(after_epoch=2, wait=False)


def test_an_error_that_nobody_thought_of_is_not_lost_in_the_revert(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    Training(world)

    def broken(self: Kill, scene: Scene) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Kill, "revert", broken)

    with pytest.raises(OSError, match="No space left"):
        world.inject(after_epoch=2)
    kept = [world.store.get(entry.key) for entry in world.store.list(f"{RECEIPTS_PREFIX}/")]
    assert any(b"could not be reverted: OSError(28" in text for text in kept)
    assert [left.kind for left in left_undone(world.runtime, world.runtime.status()).faults] == ["kill"]


# --detach


def test_without_waiting_it_returns_when_the_fault_is_reverted(world: Drill) -> None:
    Training(world, epochs=1000)

    outcome = world.inject(after_epoch=2, duration=3.0, wait=False)

    assert outcome.receipt is None
    assert outcome.fault.reverted_at is not None
    assert outcome.fault.reverted_at - outcome.fault.at == pytest.approx(3.0, abs=0.6)
    assert not world.jobs.get(JOB).final
    assert world.healthy()
    assert "reverted" in world.moment_keys()


@pytest.mark.parametrize("kind", ["kill", "stop"])
def test_a_node_is_left_down_until_somebody_starts_it(world: Drill, kind: str) -> None:
    Training(world, epochs=1000)

    outcome = world.inject(kind=kind, after_epoch=2, leave_down=True)

    assert (outcome.receipt, outcome.fault.reverted_at) == (None, None)
    assert left_undone(world.runtime, world.runtime.status()).down == (W0,)
    assert left_undone(world.runtime, world.runtime.status()).faults == ()
    assert left_undone(world.runtime, world.runtime.status()).ended == ()
    world.clock.sleep(600)
    assert left_undone(world.runtime, world.runtime.status()).down == (W0,)
    world.lab.restart(W0)
    assert world.healthy()
    assert left_undone(world.runtime, world.runtime.status()).down == ()
    assert ActiveFaults(world.runtime.folder()).lasting() == ()


@pytest.mark.parametrize(("space", "spared"), [("ben", True), ("ann", False)])
def test_who_came_to_the_node_while_the_fault_waited_is_spared(
    world: Drill, monkeypatch: pytest.MonkeyPatch, space: str, spared: bool
) -> None:
    Training(world, epochs=20)
    jobs = (
        job(JOB, "RUNNING", metadata={WORKLOAD: "ann/x"}),
        job("other", "RUNNING", driver_id="02", metadata={WORKLOAD: f"{space}/y"}),
    )
    task = Task("t", "RUNNING", "02", world.node_id(W0), {"CPU": 1.0})
    snapshot = Snapshot(world.api.nodes(), jobs, (), (), (task,))
    monkeypatch.setattr("lab.flows.recovery.trigger.read", lambda _: snapshot)
    if not spared:
        assert world.inject(after_epoch=2, spare_others=True).fault.target == W0
        return
    with pytest.raises(RefusedError, match="lost to other, too"):
        world.inject(after_epoch=2, spare_others=True)
    assert world.healthy()
    assert "fault" not in world.moment_keys()


def test_a_node_that_was_left_down_and_runs_again_can_be_broken_again(world: Drill) -> None:
    """Whoever started it, such as `docker start`, need not have told labctl."""
    Training(world, epochs=1000)
    for target in (W0, W1):
        world.inject(target, "stop", after_epoch=2, leave_down=True)
        world.runtime.start(target)
        world.clock.sleep(60)  # it trains on the other node
    world.inject(W0, "stop", after_epoch=2, leave_down=True)
    assert left_undone(world.runtime, world.runtime.status()).down == (W0,)
    (healed, _) = heal(world.lab, clock=world.clock)
    assert (healed.target, healed.problem, world.healthy()) == (W0, "", True)


def test_what_would_not_stay_down_is_refused(world: Drill) -> None:
    Training(world, epochs=1000)
    for kind, duration, words in (("pause", None, "pause ends no node"), ("kill", 3.0, "no end to")):
        with pytest.raises(UsageError, match=words):
            world.inject(kind=kind, leave_down=True, duration=duration)
    assert world.healthy()


def test_a_node_that_could_not_be_ended_is_not_left_down(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    Training(world, epochs=1000)

    def refuse(self: Kill, scene: Scene) -> None:
        raise ServiceError("no permission")

    monkeypatch.setattr(Kill, "inject", refuse)
    with pytest.raises(ServiceError, match="no permission"):
        world.inject(after_epoch=2, leave_down=True)
    assert ActiveFaults(world.runtime.folder()).lasting() == ()


# Evidence


def test_the_receipt_is_kept_in_the_object_store(world: Drill) -> None:
    Training(world)

    outcome = world.inject(after_epoch=2)

    name = f"{RECEIPTS_PREFIX}/{JOB}-{int(outcome.fault.at)}.json"
    assert outcome.receipt is not None
    assert json.loads(world.store.get(name)) == plain(outcome.receipt)


@pytest.mark.parametrize("kind", ["kill", "stop", "pause"])
def test_a_fault_is_recorded_when_it_begins_and_when_it_is_reverted(world: Drill, kind: str) -> None:
    Training(world, epochs=40)
    seen: list[LoggedFault] = []
    node = world.node_id(W0)

    def look(moment: Moment) -> None:
        entries = world.store.list(f"{FAULTS_PREFIX}/{JOB}/")
        records = [read_fault(world.store.get(entry.key)) for entry in entries]
        seen.extend(fault for fault in records if fault is not None and fault not in seen)

    outcome = world.inject(W0, kind, after_epoch=2, on_moment=look)

    given = find_fault(kind).kind.settle({})
    slowest = outcome.fault.slowest_read
    begun = LoggedFault(kind, W0, outcome.fault.at, node_id=node, parameters=given, run="run")
    assert seen == [
        begun,
        replace(begun, reverted_at=outcome.fault.reverted_at, slowest_read=slowest),
    ]


def test_an_interrupted_fault_is_recorded_as_reverted(world: Drill) -> None:
    Training(world)

    def interrupt(moment: Moment) -> None:
        if moment.key == "node_dead":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.inject(on_moment=interrupt)
    (entry,) = world.store.list(f"{FAULTS_PREFIX}/")
    fault = read_fault(world.store.get(entry.key))
    assert fault is not None
    assert fault.reverted_at is not None


def test_a_fault_that_cannot_be_recorded_is_told_once_and_tried_again_at_the_end(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    Training(world)
    tries: list[str] = []
    put = world.store.put

    def full(key: str, data: bytes) -> None:
        if key.startswith(FAULTS_PREFIX):
            tries.append(key)
            raise StoreError("the disk is full")
        put(key, data)

    monkeypatch.setattr(world.store, "put", full)
    world.inject(after_epoch=2)

    assert len(tries) == 3, "at the begin, at the revert, and at the end"
    (problem,) = [moment for moment in world.moments if moment.key == "problem"]
    assert problem.text == "the fault could not be recorded in the object store: the disk is full"


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{", b'{"kind": 1, "target": "t", "at": 1}', b'{"kind": "k", "target": "t"}']
)
def test_what_is_no_record_of_a_fault_is_passed_over(data: bytes) -> None:
    assert read_fault(data) is None


def test_a_receipt_that_cannot_be_kept_is_told_and_still_given(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    Training(world)

    def full(key: str, data: bytes) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(world.store, "put", full)

    assert world.inject(after_epoch=2).receipt is not None
    assert world.moments[-1].key == "problem"
    assert "the disk is full" in world.moments[-1].text


def test_an_unreadable_ledger_is_a_problem_of_the_receipt_and_no_crash(world: Drill) -> None:
    Training(world)

    def cut_off(moment: Moment) -> None:
        world.moments.append(moment)
        if moment.key == "fault":
            world.store.failure = StoreError("cannot be reached")

    receipt = world.inject(after_epoch=2, on_moment=cut_off).receipt

    assert receipt is not None
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert any("ledger could not be read: cannot be reached" in problem for problem in receipt.problems)
    assert world.healthy()


def test_a_store_that_is_silent_for_a_while_costs_no_proof(world: Drill) -> None:
    Training(world)

    def cut_off(moment: Moment) -> None:
        world.moments.append(moment)
        if moment.key == "fault":
            world.silence(True)
            world.clock.after(3.0, lambda: world.silence(False))

    receipt = world.inject(after_epoch=2, on_moment=cut_off).receipt

    assert receipt is not None
    assert receipt.verdict is Verdict.RECOVERED, receipt


def test_a_cluster_that_falls_silent_for_good_is_a_problem(world: Drill) -> None:
    Training(world)

    def cut_off(moment: Moment) -> None:
        world.moments.append(moment)
        if moment.key == "fault":
            world.api.silence()

    receipt = world.inject(after_epoch=2, on_moment=cut_off, timeout=20.0).receipt

    assert receipt is not None
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert any("Ray did not answer" in problem for problem in receipt.problems)


def test_a_checkpoint_that_cannot_be_read_back_is_a_problem(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    Training(world)

    def unreadable(store: object, uri: str) -> dict[str, str]:
        raise StoreError("denied")

    monkeypatch.setattr(checkpoints, "stored_manifest", unreadable)
    receipt = world.inject(after_epoch=2).receipt

    assert receipt is not None
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert any("could not be read back: denied" in problem for problem in receipt.problems)


# Elastic runs


def test_an_elastic_run_goes_on_with_fewer_ranks_and_the_receipt_says_how_many(world: Drill) -> None:
    Training(world, ranks=2, least=1, cpus=2.0, on=(W0, W1))

    receipt = world.inject(after_epoch=3, duration=30.0).receipt

    assert receipt is not None
    assert receipt.verdict is Verdict.RECOVERED, receipt
    assert [row.ranks for row in receipt.world_size] == [2, 1]


def test_the_node_is_not_brought_back_for_the_sake_of_ranks_that_the_run_can_do_without(world: Drill) -> None:
    Training(world, ranks=2, least=1, cpus=2.0, on=(W0, W1), takeover=6.0)

    world.inject(after_epoch=3)

    assert world.when("start") - world.when("kill") > 6.0
