"""Retry policies of queued and of plain jobs: who begins again, when, and at what charge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.api.base import plain
from lab.daemons.queue.model import DONE, RESETTING
from lab.daemons.queue.views import describe
from lab.errors import RefusedError, UsageError
from tests.unit.daemons.queue.world import ControllerLab, priority, queue, short

LOWER = {"withinClusterQueue": "LowerPriority"}


def retry_of(world: ControllerLab, name: str) -> dict[str, Any]:
    document: dict[str, Any] = plain(describe(world.controller, world.job(name).key).retry)
    return document


def test_a_job_without_a_policy_fails_at_once(world: ControllerLab) -> None:
    world.apply(*queue("a", 1))
    world.submit("one", work=9, env={"BREAKS": "1"})
    world.settle()
    assert short(world.job("one")) == ["FAILED"]
    assert retry_of(world, "one")["phase"] == "Failed"


def test_a_reset_keeps_the_quota_through_its_pause(world: ControllerLab) -> None:
    world.apply(*queue("a", 1))
    world.submit("one", work=9, retry={"pause": 30}, env={"BREAKS": "1"})
    world.run(1)
    world.submit("two", work=2)
    world.run(10)
    assert world.job("one").phase == RESETTING
    assert world.job("two").phase == "queued"
    retry = retry_of(world, "one")
    assert (retry["phase"], retry["retries"], retry["reason"]) == ("Resetting", 1, "FailedComponent")
    ended = world.job("one").job.attempts[0].ended_at
    assert ended is not None
    assert retry["resumes_at"] == ended + 30
    world.settle()
    began = world.job("one").job.attempts[1].admitted_at
    assert began - ended in (30, 31)
    events = [event for event, _ in world.events("one")]
    assert events == ["Admitted", "Resetting", "Resuming", "Finished"]


def test_a_retry_says_that_it_resumes_the_first_attempt(world: ControllerLab) -> None:
    world.apply(*queue("a", 1))
    world.submit("one", work=9, retry={"pause": 0}, env={"BREAKS": "1"})
    world.settle()
    record = world.job("one")
    order = world.ray.jobs[f"{record.name}-2"].order
    assert order.metadata["raylab_resumes"] == record.name
    assert order.runtime_env["env_vars"]["RAYLAB_RESUME_RUN"] == record.name


def test_when_its_retries_are_used_up_a_job_has_failed(world: ControllerLab) -> None:
    world.apply(*queue("a", 1))
    world.submit("one", work=50, retry={"limit": 2, "pause": 1}, env={"BREAKS": "9"})
    world.settle()
    assert short(world.job("one")) == ["FAILED"] * 3
    assert "2 of 2 retries are used up" in world.controller.engine.items[world.job("one").key].message


@pytest.mark.parametrize(
    ("policy", "code", "attempts"),
    [
        ({"terminal_exit_codes": [2, 3]}, 3, 1),
        ({"terminal_exit_codes": [2, 3]}, 1, 2),
        ({"retryable_exit_codes": [5]}, 1, 1),
        ({"retryable_exit_codes": [5]}, 5, 2),
        ({"retryable_exit_codes": [137]}, -9, 2),
        ({"terminal_exit_codes": [2], "retryable_exit_codes": [5]}, 2, 1),
    ],
)
def test_exit_codes_decide_about_another_attempt(
    world: ControllerLab, policy: dict[str, Any], code: int, attempts: int
) -> None:
    world.apply(*queue("a", 1))
    world.submit("one", work=9, retry={"pause": 0, **policy}, env={"BREAKS": "1", "EXIT": str(code)})
    world.settle()
    assert len(short(world.job("one"))) == attempts


def test_a_job_that_was_stopped_past_the_controller_is_not_retried(world: ControllerLab) -> None:
    world.apply(*queue("a", 1))
    world.submit("one", work=50, retry={})
    world.run(5)
    world.ray.stop(world.job("one").name)
    world.settle()
    assert short(world.job("one")) == ["STOPPED"]


def test_ranks_that_never_come_are_a_reset_after_the_warm_up(world: ControllerLab) -> None:
    world.apply(*queue("a", 1))
    world.submit("one", work=50, retry={"warmup": 10, "pause": 1}, env={"LATE": "1000"})
    world.run(10)
    assert len(short(world.job("one"))) == 1
    world.run(9)
    first, second = world.job("one").job.attempts
    assert (first.reset, first.charged) == ("InsufficientPodsReady", True)
    world.run(8)
    second = world.job("one").job.attempts[1]
    assert second.whole_at is not None


def test_lost_ranks_that_do_not_return_are_a_reset_after_the_failure_grace(world: ControllerLab) -> None:
    world.apply(*queue("a", 1))
    world.submit("one", work=100, retry={"failure_grace": 10, "pause": 1})
    world.run(8)
    name = world.job("one").name
    world.ray.more_gpus[name] = -1.0
    world.run(10)
    assert len(short(world.job("one"))) == 1
    world.run(8)
    assert world.job("one").job.attempts[0].reset == "FoundFailedPods"
    world.settle()
    assert short(world.job("one")) == ["STOPPED", "SUCCEEDED"]


def test_lost_ranks_that_return_in_time_are_no_reset(world: ControllerLab) -> None:
    world.apply(*queue("a", 1))
    world.submit("one", work=60, retry={"failure_grace": 10})
    world.run(8)
    name = world.job("one").name
    world.ray.more_gpus[name] = -1.0
    world.run(6)
    world.ray.more_gpus[name] = 0.0
    world.run(6)
    world.ray.more_gpus[name] = -1.0
    world.run(6)
    world.ray.more_gpus[name] = 0.0
    world.settle()
    assert short(world.job("one")) == ["SUCCEEDED"]


def test_suspension_beats_a_reset(world: ControllerLab) -> None:
    world.apply(*queue("a", 1, preemption=LOWER), priority("high", 10))
    world.submit("low", work=9, retry={"pause": 1000}, env={"BREAKS": "1"})
    world.run(8)
    assert world.job("low").phase == RESETTING
    world.submit("high", work=2, priority_class="high")
    world.settle()
    assert short(world.job("low")) == ["FAILED", "SUCCEEDED"]
    assert ("Preempted", "InClusterQueue") in world.events("low")


def test_a_job_can_be_cancelled_in_its_pause(world: ControllerLab) -> None:
    world.apply(*queue("a", 1))
    world.submit("one", work=9, retry={"pause": 1000}, env={"BREAKS": "1"})
    world.run(8)
    world.order("one", "cancel", done=lambda record: record.phase == DONE)
    world.run(2)
    assert retry_of(world, "one")["phase"] == "Failed"
    assert short(world.job("one")) == ["FAILED"]


def test_while_ray_is_away_no_pause_ends(world: ControllerLab) -> None:
    world.apply(*queue("a", 1))
    world.submit("one", work=9, retry={"pause": 5}, env={"BREAKS": "1"})
    world.run(9)
    world.ray.away = True
    world.run(10)
    assert world.job("one").phase == RESETTING
    world.ray.away = False
    world.settle()
    assert short(world.job("one")) == ["FAILED", "SUCCEEDED"]


def test_a_job_that_succeeded_is_forgotten_after_its_time(world: ControllerLab) -> None:
    world.apply(*queue("a", 1))
    world.submit("one", work=2, retry={"success_ttl": 100})
    world.submit("two", work=2)
    world.settle()
    world.run(60)
    assert world.find("one") is not None
    world.run(120)
    assert world.find("one") is None
    assert world.find("two") is not None
    world.do(world.start)
    assert world.find("one") is None


def test_one_that_failed_is_not_forgotten(world: ControllerLab) -> None:
    world.apply(*queue("a", 1))
    world.submit("one", work=20, retry={"limit": 0, "success_ttl": 10}, env={"BREAKS": "9"})
    world.settle()
    world.run(130)
    assert world.find("one") is not None


def test_a_job_without_a_queue_runs_beside_all_quotas(world: ControllerLab) -> None:
    world.apply(*queue("a", 1))
    world.submit("one", work=20)
    world.submit("plain", "", work=9, gpus=4, retry={"pause": 1}, env={"BREAKS": "1"})
    world.settle()
    assert short(world.job("plain")) == ["FAILED", "SUCCEEDED"]
    assert world.job("plain").key.startswith("default/")


def test_a_job_without_a_queue_survives_other_queues(world: ControllerLab) -> None:
    world.submit("plain", "", work=12, retry={})
    world.run(4)
    world.apply(*queue("a", 1))
    world.do(world.start)
    world.settle()
    assert short(world.job("plain")) == ["SUCCEEDED"]


def test_only_a_job_with_a_policy_may_name_no_queue(world: ControllerLab) -> None:
    with pytest.raises(UsageError, match="queue is missing"):
        world.submit("plain", "", work=9)


def test_a_lab_of_queues_takes_no_job_without_one(tmp_path: Path) -> None:
    world = ControllerLab(tmp_path, queued_only=True)
    with pytest.raises(RefusedError, match="only through queues"):
        world.submit("plain", "", work=9, retry={})
    world.close()
