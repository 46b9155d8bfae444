"""The controller is killed at every point, and started again: every job still ends as it should, once.

A story is told without a crash first, which counts the points: each transaction, each request to Ray, and
each file that is written, before and after. Then it is told once for every point, but for those between which
only the controller's own memory changed: killed at either, it finds the same when it is started again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.daemons.queue.model import DONE
from tests.unit.daemons.queue.world import ControllerLab, Points, Watched, priority, queue, short, unflavored

Story = Callable[[ControllerLab], None]
LOWER = {"withinClusterQueue": "LowerPriority"}
ZIP = b"PK\x05\x06" + bytes(18)


def admission(world: ControllerLab) -> None:
    """Three jobs, the first of which fills the queue, and brings a package."""
    world.apply(*queue("a", 2))
    sha = hashlib.sha256(ZIP).hexdigest()
    world.do(lambda: world.controller.packages.put(sha, ZIP))
    world.submit("one", gpus=2, work=3, package=sha)
    world.submit("two", work=2)
    world.submit("three", work=2, env={"FAILS": "1"})
    world.settle()
    assert [short(world.job(name)) for name in ("one", "two", "three")] == [
        ["SUCCEEDED"],
        ["SUCCEEDED"],
        ["FAILED"],
    ]


def preemption(world: ControllerLab) -> None:
    """A job of higher priority comes, and the other goes on where its checkpoint was."""
    world.apply(*queue("a", 2, preemption=LOWER), priority("high", 10))
    world.submit("low", gpus=2, work=12)
    world.run(6)
    world.submit("high", gpus=2, work=2, priority_class="high")
    world.settle()
    assert short(world.job("high")) == ["SUCCEEDED"]
    assert short(world.job("low"))[-1] == "SUCCEEDED"
    assert ("Preempted", "InClusterQueue") in world.events("low")


def cancelled_while_submitting(world: ControllerLab) -> None:
    """A job is cancelled between its admission and the time at which Ray knows it."""
    world.apply(*queue("a", 1))
    world.submit("one", work=4)
    world.step()
    world.step(0.0)
    world.order("one", "cancel", done=lambda record: record.phase == DONE or record.stop is not None)
    world.submit("two", work=2)
    world.settle()
    assert world.controller.engine.items[world.job("one").key].reason in ("Failed", "Succeeded")
    assert short(world.job("two"))[-1] == "SUCCEEDED"


def cancelled_while_running(world: ControllerLab) -> None:
    world.apply(*queue("a", 1))
    world.submit("one", work=100)
    world.run(5)
    world.order("one", "cancel", done=lambda record: record.phase == DONE or record.stop is not None)
    world.settle()
    assert short(world.job("one"))[-1] == "STOPPED"


def head_lost(world: ControllerLab) -> None:
    """Ray forgets its jobs, and is away for a while."""
    world.apply(*queue("a", 2))
    world.submit("one", work=8)
    world.submit("two", work=8)
    world.run(5)
    world.ray.lose_head()
    world.ray.away = True
    world.run(3)
    world.ray.away = False
    world.settle()
    for name in ("one", "two"):
        assert short(world.job(name))[-1] == "SUCCEEDED"
        assert ("Requeued", "NodeFailures") in world.events(name)


def head_killed(world: ControllerLab) -> None:
    """A job ends Ray's head whenever it begins."""
    world.apply(*queue("a", 2))
    world.submit("one", work=50)
    for _ in range(3):
        world.run(5)
        world.ray.lose_head()
    world.settle()
    item = world.controller.engine.items[world.job("one").key]
    assert item.reason == "Failed"
    assert "Ray's head was lost 3 times in a row" in item.message
    assert short(world.job("one")).count("LOST") == 3


def deactivation(world: ControllerLab) -> None:
    """A job that runs is deactivated, and activated again."""
    world.apply(*queue("a", 1))
    world.submit("one", work=9)
    world.run(4)
    key = world.job("one").key
    world.order("one", "deactivate", done=lambda _: not world.controller.engine.items[key].active)
    world.submit("two", work=2)
    world.run(9)
    world.order("one", "activate", done=lambda _: world.controller.engine.items[key].active)
    world.settle()
    assert short(world.job("one"))[-1] == short(world.job("two"))[-1] == "SUCCEEDED"


def activated_while_stopping(world: ControllerLab) -> None:
    world.apply(*queue("a", 1))
    world.submit("one", work=9)
    world.run(4)
    key = world.job("one").key
    world.order("one", "deactivate", done=lambda _: not world.controller.engine.items[key].active)
    world.order("one", "activate", done=lambda _: world.controller.engine.items[key].active)
    world.settle()
    assert short(world.job("one"))[-1] == "SUCCEEDED"


def partial_admission(world: ControllerLab) -> None:
    """A job takes fewer workers than it would like, and is told so."""
    world.apply(*queue("a", 3))
    world.submit("one", work=30)
    world.step()
    world.submit("many", work=2, count=4, least=1, ranks="workers")
    world.settle()
    (many,) = [job for job in world.ray.jobs.values() if job.workload == world.job("many").key]
    assert many.gpus == 2
    assert many.order.command[-1] == many.order.runtime_env["env_vars"]["RAYLAB_WORKERS_GRANTED"] == "2"


def drained(world: ControllerLab) -> None:
    """A queue is stopped and drained, and opened again."""
    world.apply(*queue("a", 2))
    world.submit("one", work=8)
    world.submit("two", work=8)
    world.run(4)
    world.apply(*queue("a", 2, stopPolicy="HoldAndDrain"))
    world.run(8)
    assert not world.ray.living()
    world.apply(*queue("a", 2))
    world.settle()
    assert short(world.job("one"))[-1] == short(world.job("two"))[-1] == "SUCCEEDED"


def reclaimed(world: ControllerLab) -> None:
    """A queue gets back what another one has borrowed."""
    reclaim = {"reclaimWithinCohort": "Any"}
    world.apply(
        *queue("a", 1, "both", preemption=reclaim), *unflavored(queue("b", 1, "both", preemption=reclaim))
    )
    world.submit("one", "a", work=9, gpus=2)
    world.run(4)
    world.submit("two", "b", work=3)
    world.settle()
    assert ("Preempted", "InCohortReclamation") in world.events("one")
    assert short(world.job("one"))[-1] == short(world.job("two"))[-1] == "SUCCEEDED"


def out_of_time(world: ControllerLab) -> None:
    """A job runs longer than it may."""
    world.apply(*queue("a", 1))
    world.submit("one", work=100, max_time=4)
    world.run(12)
    assert not world.ray.living()
    inactive = world.job("one")
    assert inactive.phase == "inactive"
    world.order("one", "cancel", done=lambda record: record.phase == DONE)


def out_of_time_without_a_queue(world: ControllerLab) -> None:
    """A job that names no queue runs longer than it may."""
    world.submit("one", "", work=100, max_time=4)
    world.run(12)
    assert not world.ray.living()
    assert world.job("one").phase == "inactive"
    world.order("one", "cancel", done=lambda record: record.phase == DONE)


def refused(world: ControllerLab) -> None:
    """Ray does not take a job."""
    world.apply(*queue("a", 1))
    world.submit("one", runtime_env={"bad": True})
    world.submit("two", work=2)
    world.settle()
    assert short(world.job("one")) == ["UNSENT"]
    assert short(world.job("two"))[-1] == "SUCCEEDED"


def retried(world: ControllerLab) -> None:
    """A job fails and begins again, and keeps its quota meanwhile: another one waits all the time."""
    world.apply(*queue("a", 1))
    world.submit("one", work=6, retry={"pause": 2}, env={"BREAKS": "1", "EXIT": "1"})
    world.run(3)
    world.submit("two", work=2)
    world.settle()
    one = world.job("one")
    assert short(one) == ["FAILED", "SUCCEEDED"]
    assert one.job.retries == 1
    assert (one.job.attempts[-1].ended_at or 0.0) <= world.job("two").job.attempts[0].admitted_at


def preempted_in_its_pause(world: ControllerLab) -> None:
    """A job waits for its retry when one of higher priority takes its quota, and begins again after that."""
    world.apply(*queue("a", 1, preemption=LOWER), priority("high", 10))
    world.submit("low", work=6, retry={"pause": 30}, env={"BREAKS": "1"})
    world.run(9)
    world.submit("high", work=2, priority_class="high")
    world.settle()
    assert short(world.job("low")) == ["FAILED", "SUCCEEDED"]
    assert short(world.job("high")) == ["SUCCEEDED"]


def retried_without_a_queue(world: ControllerLab) -> None:
    """A job that names no queue fails, begins again, and is cancelled in its next pause."""
    world.submit("one", "", work=90, retry={"pause": 1}, env={"BREAKS": "1"})
    world.run(12)
    assert world.job("one").job.retries == 1
    world.order("one", "cancel", done=lambda record: record.phase == DONE or record.stop is not None)
    world.settle()
    assert short(world.job("one")) == ["FAILED", "STOPPED"]


STORIES: tuple[Story, ...] = (
    admission,
    preemption,
    cancelled_while_submitting,
    cancelled_while_running,
    head_lost,
    head_killed,
    deactivation,
    activated_while_stopping,
    partial_admission,
    drained,
    reclaimed,
    out_of_time,
    out_of_time_without_a_queue,
    refused,
    retried,
    preempted_in_its_pause,
    retried_without_a_queue,
)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_killed_at_any_point_it_loses_and_doubles_nothing(story: Story, tmp_path: Path) -> None:
    watched = Watched()
    world = ControllerLab(tmp_path / "whole", watched)
    story(world)
    world.check_end()
    world.close()
    points = watched.count
    assert 20 <= len(watched.distinct) < points
    for at in watched.distinct:
        reached = Points(at)
        world = ControllerLab(tmp_path / str(at), reached)
        try:
            story(world)
            world.check_end()
        except Exception as error:
            raise AssertionError(f"killed at {at} of {points}, {reached.where}: {error!r}") from error
        assert world.crashes == 1, f"point {at} was not reached"
        world.close()
