"""Before a fault: what is refused, and the moment that is waited for."""

from __future__ import annotations

from typing import Any

import pytest

from lab.errors import (
    LabDownError,
    LabError,
    NotFoundError,
    RefusedError,
    UsageError,
    WaitTimeoutError,
)
from lab.faults import find_fault
from lab.flows.recovery import check_target
from lab.flows.recovery.watch import GONE_SECONDS
from lab.services import HEAD, JUPYTER, STORE, worker
from tests.unit.data.failures import FAILED, LOGS
from tests.unit.flows.world import JOB, W0, W1, Drill, Training


def fault_at(world: Drill) -> float:
    """When the fault came, in seconds since the world began."""
    return world.when("kill")


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        (HEAD, RefusedError, "kill is a fault of a node that trains; ray-head runs no rank"),
        (STORE, RefusedError, "kill is a fault of a node that trains; minio runs no rank"),
        (JUPYTER, RefusedError, "kill is a fault of a node that trains; jupyter runs no rank"),
        (worker(2), NotFoundError, "lab raylab has no service 'ray-worker-2'"),
        ("nonsense", NotFoundError, "no service 'nonsense'"),
    ],
)
def test_only_workers_can_be_broken(world: Drill, target: str, error: type[LabError], message: str) -> None:
    Training(world)

    with pytest.raises(error, match=message) as caught:
        world.inject(target)
    assert W0 in caught.value.hint
    assert not world.calls()


def test_a_lab_that_is_down_cannot_be_broken(world: Drill) -> None:
    world.runtime.down()

    with pytest.raises(LabDownError):
        check_target(world.lab.control, W0, find_fault("kill").kind)


@pytest.mark.parametrize(
    ("kind", "request_", "error", "message"),
    [
        ("nonsense", {}, NotFoundError, "there is no fault 'nonsense'"),
        ("kill", {"duration": 0}, UsageError, "for=0: must be between 0.1 and 3600 s"),
        ("kill", {"duration": -3}, UsageError, "for=-3"),
        ("kill", {"job": "nope"}, NotFoundError, "no job 'nope'"),
    ],
)
def test_a_request_that_makes_no_sense_changes_nothing(
    world: Drill, kind: str, request_: dict[str, Any], error: type[LabError], message: str
) -> None:
    Training(world)

    with pytest.raises(error, match=message):
        world.inject(W0, kind, **request_)
    assert not world.calls()


def test_without_a_running_job_there_is_nothing_to_break(world: Drill) -> None:
    with pytest.raises(RefusedError, match="no job is running"):
        world.inject()
    world.jobs.become("SUCCEEDED")
    with pytest.raises(RefusedError, match="no job is running"):
        world.inject()
    with pytest.raises(RefusedError, match=r"j1 .*SUCCEEDED"):
        world.inject(job=JOB)


def test_of_several_running_jobs_one_must_be_chosen(world: Drill) -> None:
    Training(world)
    world.jobs.become("RUNNING", "j2")

    with pytest.raises(RefusedError, match="j1, j2"):
        world.inject()
    assert world.inject(job=JOB).receipt is not None


def test_by_default_the_first_complete_checkpoint_is_enough(world: Drill) -> None:
    Training(world)

    world.inject()

    assert fault_at(world) == pytest.approx(2.0, abs=0.6)


def test_an_epoch_is_waited_for(world: Drill) -> None:
    Training(world)

    world.inject(after_epoch=4)

    assert fault_at(world) == pytest.approx(5.0, abs=0.6)
    progress = [m.text for m in world.moments if m.key == "progress" and m.seconds is None]
    assert progress[-1] == "checkpoint of epoch 4 is complete"


def test_an_epoch_that_two_reports_have_is_waited_for(world: Drill) -> None:
    Training(world, evaluates=True)

    world.inject(after_epoch=4)

    assert fault_at(world) == pytest.approx(5.0, abs=0.6)


def test_a_run_that_names_no_epoch_is_refused_as_such(world: Drill) -> None:
    Training(world, key=None)

    with pytest.raises(RefusedError, match="only: loss"):
        world.inject(after_epoch=4)


def test_an_epoch_that_has_passed_already_is_no_reason_to_wait(world: Drill) -> None:
    Training(world)
    world.clock.sleep(6.0)

    world.inject(after_epoch=2)

    assert fault_at(world) == pytest.approx(6.0, abs=0.3)


def test_seconds_are_waited_for_whether_or_not_there_is_a_checkpoint(world: Drill) -> None:
    Training(world, start_after=0.5)

    world.inject(after_seconds=1.0)

    assert fault_at(world) == pytest.approx(1.0, abs=0.3)


def test_seconds_do_not_count_before_the_job_trains(world: Drill) -> None:
    Training(world, start_after=8.0)

    world.inject(after_seconds=1.0)

    assert fault_at(world) == pytest.approx(8.0, abs=0.6)


def test_a_target_without_a_rank_is_refused_at_once_and_told_where_the_job_runs(world: Drill) -> None:
    Training(world)

    with pytest.raises(RefusedError, match=r"ray-worker-1 runs no .*ray-worker-0") as caught:
        world.inject(W1, after_epoch=10)
    assert caught.value.hint == "labctl fault-inject ray-worker-0"
    assert world.clock() - world.begin < 2.0
    assert not world.calls()


def test_of_several_runs_at_once_the_one_on_the_target_is_watched(world: Drill) -> None:
    Training(world, on=(W0,))

    def another() -> None:
        world.write("run_started", run="other", num_workers=1, resources_per_worker={"CPU": 1.0}, config={})
        workers = [{"rank": 0, "node_id": world.node_id(W1)}]
        world.write("attempt_started", run="other", attempt=1, workers=workers)

    world.clock.after(1.5, another)

    outcome = world.inject(W0, after_epoch=3)

    assert outcome.receipt is not None
    assert outcome.receipt.attempts[0].nodes == ("ray-worker-0",)


def test_a_target_that_runs_only_the_entrypoint_is_refused_with_the_reason(world: Drill) -> None:
    Training(world)
    world.jobs.become("RUNNING", node_id=world.node_id(W1))

    with pytest.raises(RefusedError, match=r"only the entrypoint .*on ray-worker-0"):
        world.inject(W1)


def test_a_target_that_is_down_is_refused(world: Drill) -> None:
    Training(world, on=(W1,))
    world.runtime.kill(W0)
    world.host.journal.clear()

    with pytest.raises(RefusedError, match="ray-worker-0 runs no part"):
        world.inject(W0)
    assert not world.calls()


def test_a_target_that_dies_meanwhile_is_waited_for_until_the_job_is_elsewhere(world: Drill) -> None:
    training = Training(world)
    notices = training.epoch
    training.epoch = lambda: world.clock.after(5.0, notices)  # type: ignore[method-assign]
    world.clock.after(1.5, lambda: world.runtime.kill(W0))

    with pytest.raises(RefusedError, match=f"{W0} runs no part .*{W1}"):
        world.inject(W0, after_epoch=30)
    assert world.clock() - world.begin > 7.0


def test_no_fault_falls_between_two_attempts(world: Drill) -> None:
    """Attempt 1 ends for a reason of its own after 4 s; attempt 2 begins 6 s later."""
    training = Training(world, takeover=6.0)
    world.clock.after(3.5, lambda: setattr(training, "crashes", True))

    world.inject(after_seconds=5.0)

    assert training.attempt == 3
    assert fault_at(world) == pytest.approx(10.0, abs=0.6)


def test_a_job_that_failed_too_early_is_told_with_the_cause(world: Drill) -> None:
    Training(world, start_after=60)
    world.clock.after(5.0, lambda: world.jobs.become("FAILED", at=world.clock(), message=FAILED))
    world.jobs.output[JOB] = LOGS["module"][0]

    with pytest.raises(RefusedError, match=r"FAILED\) before .*module is missing") as caught:
        world.inject()
    assert "(ModuleNotFoundError: No module named 'torchmetrics')" in caught.value.message
    assert "docs/troubleshooting.md#a-python-module-is-missing-where-the-job-ran" in caught.value.hint
    assert not world.calls()


def test_a_job_that_had_failed_is_refused_with_the_cause(world: Drill) -> None:
    world.jobs.become("FAILED", message=f"{FAILED}{LOGS['tuner-trainer'][0]}")

    with pytest.raises(RefusedError, match=r"FAILED.*tune.Tuner"):
        world.inject(job="j1")


def test_a_job_that_ends_too_early_is_told(world: Drill) -> None:
    Training(world, epochs=3)

    with pytest.raises(RefusedError, match=r"SUCCEEDED.*epoch 9") as caught:
        world.inject(after_epoch=9)
    assert "epochs=" in caught.value.hint
    assert not world.calls()


def test_a_wait_that_is_too_long_says_how_far_the_job_is(world: Drill) -> None:
    Training(world, epochs=100)

    with pytest.raises(
        WaitTimeoutError,
        match=r"epoch 50; .*RUNNING, .*epoch 4",
    ):
        world.inject(after_epoch=50, timeout=5.0)
    assert not world.calls()


def test_an_epoch_numbered_zero_is_a_checkpoint(world: Drill) -> None:
    Training(world, first=0, epochs=100)

    with pytest.raises(WaitTimeoutError, match="epoch 0"):
        world.inject(after_epoch=50, timeout=2.5)


@pytest.mark.parametrize(
    ("key", "start_after", "reached"),
    [
        ("epoch", 60.0, "no checkpoint and no ledger: it runs no Ray Train, or its ledger cannot be written"),
        ("epoch", 1.0, "the newest checkpoint is of epoch 3"),
    ],
)
def test_a_wait_in_vain_says_what_there_is(
    world: Drill, key: str | None, start_after: float, reached: str
) -> None:
    Training(world, key=key, start_after=start_after)

    with pytest.raises(WaitTimeoutError, match=f"{reached}; 4.5 s have passed: "):
        world.inject(after_epoch=5, timeout=4.5)


def test_ctrl_c_while_waiting_changes_nothing(world: Drill) -> None:
    Training(world)

    def interrupt() -> None:
        raise KeyboardInterrupt

    world.clock.after(1.5, interrupt)
    with pytest.raises(KeyboardInterrupt):
        world.inject(after_epoch=9)
    assert not world.calls()
    assert world.healthy()


def test_a_silent_moment_of_ray_or_the_store_does_not_end_the_wait(world: Drill) -> None:
    Training(world)

    world.clock.after(1.2, lambda: world.silence(True))
    world.clock.after(3.2, lambda: world.silence(False))

    outcome = world.inject()

    assert fault_at(world) == pytest.approx(3.2, abs=0.6)
    assert outcome.receipt is not None
    assert outcome.receipt.problems == ()


# A lab that is taken down meanwhile


def test_a_wait_ends_soon_when_its_lab_is_taken_down(world: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    Training(world, epochs=1000)
    monkeypatch.setattr(Training, "lives", lambda self, service: True)

    def down() -> None:
        world.runtime.down()
        world.api.silence()

    world.clock.after(5.0, down)
    with pytest.raises(LabDownError, match="j1"):
        world.inject(after_epoch=500)
    assert world.clock() - world.begin < 5.0 + 2 * GONE_SECONDS + 1.0


def test_a_head_that_is_silent_is_no_lab_that_is_gone(world: Drill) -> None:
    Training(world)
    world.clock.after(2.0, world.api.silence)
    world.clock.after(20.0, lambda: world.api.silence(False))
    assert world.inject(after_epoch=2).receipt is not None
