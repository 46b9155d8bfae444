"""Quota that a lab of somebody's own has: counted and waited for, and of no interest to Ray."""

from __future__ import annotations

import pytest

from lab.daemons.queue.model import DONE, QUEUED, RUNNING, STOPPING
from lab.daemons.queue.views.prospects import why
from lab.errors import RefusedError, UsageError
from tests.unit.daemons.queue.world import ControllerLab, priority, queue

CONFIG = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
LOWER = {"withinClusterQueue": "LowerPriority"}


def lend(world: ControllerLab, gpus: int = 1) -> str:
    key = world.submit("hers", gpus=gpus, lab="raylab-ann")
    world.run(2)
    return key


def test_a_lab_holds_quota_without_a_job_until_it_is_released(world: ControllerLab) -> None:
    world.apply(*queue("a", 2))
    key = lend(world)
    world.submit("bens", gpus=2)
    world.run(30)
    assert (world.job("hers").phase, world.job("bens").phase) == (RUNNING, QUEUED)
    assert (world.ray.submitted, world.job("hers").job.attempts) == ([], ())
    world.start()  # as after `down` and `up`
    world.run(5)
    assert (world.job("hers").phase, world.job("bens").phase) == (RUNNING, QUEUED)
    world.order("hers", "release", done=lambda record: record.phase == DONE)
    world.settle()
    assert [name.partition("-")[0] for name in world.ray.submitted] == ["job"]
    assert world.controller.engine.items[key].reason == "Succeeded"


def test_the_loop_rests_while_a_lab_has_quota(world: ControllerLab, monkeypatch: pytest.MonkeyPatch) -> None:
    world.apply(*queue("a", 2))
    lend(world)
    monkeypatch.setattr(world.reconciler, "_background", lambda running: None)  # whose ends wake it
    world.controller.wake.clear()
    world.run(3)
    assert not world.controller.wake.is_set()


@pytest.mark.parametrize("verb", ["cancel", "deactivate"])
def test_nobody_takes_it_from_a_lab_that_runs(world: ControllerLab, verb: str) -> None:
    world.apply(*queue("a", 2))
    key = lend(world)
    with pytest.raises(RefusedError, match="own lab raylab-ann"):
        world.facade.order(key, verb, b"{}")
    assert world.job("hers").phase == RUNNING


def test_a_job_of_higher_priority_waits_for_the_end_of_the_lab(world: ControllerLab) -> None:
    world.apply(*queue("a", 2, preemption=LOWER), priority("high", 10))
    lend(world, gpus=2)
    world.start()  # as after `down` and `up`
    world.submit("high", gpus=2, priority_class="high")
    world.run(60)
    assert (world.job("hers").phase, world.job("high").phase) == (RUNNING, QUEUED)
    assert "holds both" in why(world.controller, world.job("high").key).waits
    world.order("hers", "release", done=lambda record: record.phase == DONE)
    world.settle()
    assert len(world.ray.submitted) == 1


@pytest.mark.parametrize(
    "config",
    [None, {"fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare"]}}],
    ids=["classic", "fair"],
)
def test_a_preemption_takes_from_a_job_and_not_from_a_lab(
    world: ControllerLab, config: dict[str, object] | None
) -> None:
    """The lab was admitted last, so Kueue would take from it first."""
    world.apply(
        *queue("a", 2, preemption=LOWER), priority("high", 10), *([CONFIG | config] if config else [])
    )
    world.submit("bens", gpus=1, work=600)
    world.run(5)
    lend(world)
    world.submit("high", gpus=1, work=600, priority_class="high")
    world.run(60)
    assert (world.job("hers").phase, world.job("bens").phase) == (RUNNING, QUEUED)
    assert world.job("high").job.attempts


def test_a_queue_that_is_drained_waits_for_the_end_of_the_lab(world: ControllerLab) -> None:
    world.apply(*queue("a", 2))
    lend(world)
    world.apply(*queue("a", 2, stopPolicy="HoldAndDrain"))
    world.run(60)
    assert world.job("hers").phase == STOPPING
    world.order("hers", "release", done=lambda record: record.phase == DONE)


def test_one_that_only_waits_can_be_cancelled(world: ControllerLab) -> None:
    world.apply(*queue("a", 1))
    world.submit("bens", work=60)
    world.run(3)
    key = lend(world)
    assert world.job("hers").phase == QUEUED
    world.facade.order(key, "cancel", b"{}")
    assert world.job("hers").phase == DONE


def test_a_job_is_not_released_and_a_lab_has_a_queue(world: ControllerLab) -> None:
    world.apply(*queue("a", 1))
    key = world.submit("bens")
    with pytest.raises(RefusedError, match="is no lab"):
        world.facade.order(key, "release", b"{}")
    with pytest.raises(UsageError, match="lab without a queue"):
        world.submit("hers", queue="", lab="raylab-ann", max_time=60)
