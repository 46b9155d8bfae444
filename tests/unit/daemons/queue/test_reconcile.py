"""The controller's loop against a Ray of the tests: who is admitted, stopped, blamed, and what is said."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kueue.writing import workload_object
from lab.api.queue_requests import JobRequest, Workers
from lab.cluster.submission import Submission
from lab.daemons.queue import requests
from lab.daemons.queue.model import DONE, RUNNING, STOPPING, Record
from lab.daemons.queue.store import Batch
from lab.errors import StateError
from tests.unit.daemons.queue.world import ControllerLab, CrashingStore, RayJob, priority, queue, short

LOWER = {"withinClusterQueue": "LowerPriority"}


def order_of(world: ControllerLab, name: str) -> Submission:
    attempt = world.job(name).attempt
    assert attempt is not None
    return world.ray.jobs[attempt.submission_id].order


def test_an_attempt_says_whose_it_is_and_what_it_resumes(world: ControllerLab) -> None:
    world.apply(*queue("a", 2, preemption=LOWER), priority("high", 10))
    world.submit("low", gpus=2, work=12, recipe="digits")
    world.run(6)
    record = world.job("low")
    first = order_of(world, "low")
    assert first.submission_id == record.name
    assert first.metadata == {
        "job_name": "low",
        "raylab_queue": "ns/a",
        "raylab_workload": record.key,
        "raylab_attempt": "1",
        "raylab_recipe": "digits",
    }
    assert first.runtime_env["env_vars"]["RAYLAB_RESUME_RUN"] == record.name
    world.submit("high", gpus=2, work=2, priority_class="high")
    world.settle()
    second = order_of(world, "low")
    assert second.submission_id == f"{record.name}-2"
    assert second.metadata["raylab_attempt"] == "2"
    assert second.metadata["raylab_resumes"] == record.name
    assert second.runtime_env["env_vars"]["RAYLAB_RESUME_RUN"] == record.name


@pytest.mark.parametrize("workload", ["", "ns/another"])
def test_a_job_of_somebody_else_with_the_same_id_is_neither_taken_for_it_nor_stopped(
    world: ControllerLab, workload: str
) -> None:
    world.apply(*queue("a", 1))
    variables = {"env_vars": {"GPUS": "0", "WORK": "60"}}
    metadata = {"raylab_workload": workload, "raylab_attempt": "1"}
    world.ray.submit(
        Submission(("sleep", "60"), runtime_env=variables, submission_id="mine", metadata=metadata)
    )
    world.submit("one", name="mine")
    world.run(3)
    record = world.job("one")
    assert (record.phase, short(record)) == (DONE, ["UNSENT"])
    assert "Ray has another job mine" in world.controller.engine.items[record.key].message
    assert world.ray.jobs["mine"].stopped is None
    assert world.ray.submitted == ["mine"], "nothing was submitted in its place"


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, range(1, 5)),
        ({"preemption_grace": 0}, range(0, 2)),
        ({"env": {"PLAIN": "1"}}, range(0, 2)),
    ],
    ids=["after a checkpoint", "at once", "at once without a run"],
)
def test_a_preempted_job_is_stopped(world: ControllerLab, fields: dict[str, Any], seconds: range) -> None:
    world.apply(*queue("a", 1, preemption=LOWER), priority("high", 10))
    world.submit("low", work=100, **fields)
    world.run(5)
    world.submit("high", work=1, priority_class="high")
    world.run(10)
    attempt = world.job("low").job.attempts[0]
    evicted = next(e.change.at for e in world.controller.events() if e.change.event == "Preempted")
    assert attempt.ended_at is not None
    assert attempt.evicted == "Preempted"
    assert attempt.ended_at - evicted - 1 in seconds


def test_a_checkpoint_is_waited_for_no_longer_than_the_grace(world: ControllerLab) -> None:
    world.apply(*queue("a", 1, preemption=LOWER), priority("high", 10))
    world.submit("low", work=100, preemption_grace=6)
    world.run(5)
    world.ray.checkpoint_since = lambda submission_id, at: False  # type: ignore[method-assign]
    world.submit("high", work=1, priority_class="high")
    world.run(6)
    assert world.job("low").phase == STOPPING
    world.run(4)
    assert short(world.job("low"))[0] == "STOPPED"


@pytest.mark.parametrize("who", ["ray", "store"])
def test_while_ray_or_the_store_is_away_nothing_is_admitted(world: ControllerLab, who: str) -> None:
    world.apply(*queue("a", 1))
    world.run(2)
    world.ray.away, world.ray.store_away = who == "ray", who == "store"
    world.run(7)
    world.submit("one", work=2)
    world.run(5)
    assert world.job("one").phase == "queued"
    assert list(world.controller.away) == [who]
    world.ray.away = world.ray.store_away = False
    world.settle()
    assert short(world.job("one")) == ["SUCCEEDED"]
    assert not world.controller.away
    assert [line.split(":")[0] for line in world.log][-2:] == [
        f"{who} does not answer, so nothing is admitted",
        f"{who} answers",
    ]


def test_a_job_that_takes_more_than_it_asked_for_is_named(world: ControllerLab) -> None:
    world.apply(*queue("a", 4))
    world.submit("greedy", work=100)
    world.run(3)
    attempt = world.job("greedy").attempt
    assert attempt is not None
    world.ray.more_gpus[attempt.submission_id] = 2
    world.run(8)
    assert world.job("greedy").job.takes == {"GPU": 3.0}
    assert world.job("greedy").phase == RUNNING
    assert world.events("greedy").count(("TakesMoreThanAsked", "TakesMoreThanAsked")) == 1
    world.ray.more_gpus.clear()
    world.run(8)
    assert not world.job("greedy").job.takes


def test_with_enforce_it_is_ended(world: ControllerLab) -> None:
    world.apply(*queue("a", 4))
    world.submit("greedy", work=100, enforce=True)
    world.run(3)
    attempt = world.job("greedy").attempt
    assert attempt is not None
    world.ray.more_gpus[attempt.submission_id] = 2
    world.run(12)
    assert world.job("greedy").phase == DONE
    item = world.controller.engine.items[world.job("greedy").key]
    assert (item.reason, item.message) == ("Failed", "Ended: it takes 3 GPU, more than it asked for")


def test_queued_only_stops_what_came_past_the_queues(tmp_path: Path) -> None:
    for queued_only in (True, False):
        world = ControllerLab(tmp_path / str(queued_only), queued_only=queued_only)
        order = Submission(
            ("python",),
            runtime_env={"env_vars": {"GPUS": "1"}},
            submission_id="stranger",
            metadata={"raylab_workload": ""},
        )
        world.apply(*queue("a", 1))
        world.ray.jobs["stranger"] = made = _stranger(world, order)
        world.reconciler.step()
        world.clock.now += 6
        world.reconciler.step()
        world.reconciler.step()
        assert (made.stopped is not None) == queued_only
        assert (("Stopped", "QueuedOnly") in world.events()) == queued_only
        world.close()


def _stranger(world: ControllerLab, order: Submission) -> Any:
    return RayJob(order, "", world.clock(), 1000.0)


def test_pods_are_ready_once_the_job_holds_what_it_was_granted(world: ControllerLab) -> None:
    waits = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "waitForPodsReady": {"timeout": "20s", "requeuingStrategy": {"backoffLimitCount": 0}},
    }
    world.apply(*queue("a", 2), waits)
    world.submit("one", work=100)
    world.submit("two", work=100)
    world.run(3)
    two = world.job("two").attempt
    assert two is not None
    world.ray.more_gpus[two.submission_id] = -1
    world.run(24)
    engine = world.controller.engine
    assert engine.items[world.job("one").key].ready
    assert world.job("two").phase == "inactive"
    assert ("Deactivated", "RequeuingLimitExceeded") in world.events("two")


def test_a_job_that_was_stopped_by_somebody_has_failed(world: ControllerLab) -> None:
    world.apply(*queue("a", 1))
    world.submit("one", work=100)
    world.run(4)
    world.ray.stop(world.job("one").name)
    world.settle()
    assert world.controller.engine.items[world.job("one").key].reason == "Failed"


def test_a_running_job_is_cancelled_with_a_message_of_one_line(world: ControllerLab) -> None:
    world.apply(*queue("a", 1))
    world.submit("one", work=100)
    world.run(4)
    asked = json.dumps({"message": "GPU 0\nis\tdusty"}).encode()
    assert world.facade.order(world.job("one").key, "cancel", asked).phase == STOPPING
    world.settle()
    assert world.job("one").phase == DONE
    messages = [e.change.message for e in world.controller.events() if e.change.event == "Finished"]
    assert messages == ["GPU 0 is dusty"]


def test_a_change_that_cannot_be_written_did_not_happen(world: ControllerLab) -> None:
    world.apply(*queue("a", 1))
    world.run(2)
    world.submit("one", work=3)
    store = world.controller._store
    commit = store.commit

    def full(batch: Batch) -> None:
        raise StateError("the disk is full")

    store.commit = full  # type: ignore[method-assign]
    world.clock.now += 1
    for _ in range(2):
        with pytest.raises(StateError, match="full"):
            world.reconciler.step()
    with pytest.raises(StateError, match="full"):
        world.facade.order(world.job("one").key, "cancel", b"")
    assert not world.ray.submitted
    store.commit = commit  # type: ignore[method-assign]
    world.settle()
    world.check_end()
    assert short(world.job("one")) == ["SUCCEEDED"]


def test_a_job_that_could_not_be_written_is_shown_to_nobody_and_ends_no_step(
    world: ControllerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.submit("before", "", work=60, retry={})
    world.run(3)
    before = dict(world.controller.records)
    with monkeypatch.context() as patch:
        patch.setattr(CrashingStore, "commit", full)
        with pytest.raises(StateError, match="full"):
            world.submit("lost", "", work=9, retry={})
        assert world.controller.records == before, "readers see what was not written"
        with pytest.raises(StateError, match="full"):
            world.step()
    world.step()
    assert world.controller.records.keys() == before.keys()
    world.submit("after", "", work=2, retry={})
    world.settle()
    world.check_end()


def test_what_ray_showed_of_a_job_that_is_not_on_disk_ends_no_step(
    world: ControllerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.step()  # tidies, which it will not do again soon
    with monkeypatch.context() as patch:
        patch.setattr(CrashingStore, "commit", full)
        patch.setattr(CrashingStore, "load", full)  # memory stays ahead of the file
        with pytest.raises(StateError, match="full"):
            world.submit("lost", "", work=9, retry={})
    assert world.controller.records
    world.step()
    assert not world.controller.records


def test_an_unforeseen_error_of_a_task_is_tried_again_with_a_back_off(
    world: ControllerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.apply(*queue("a", 1))
    world.run(8)
    tries: list[float] = []

    def broken(*_: object) -> None:
        tries.append(world.clock())
        raise KeyError("an answer of unknown shape")

    with monkeypatch.context() as patch:
        patch.setattr(world.ray, "submit", broken)
        world.submit("one", work=3)
        world.run(60)
    assert 5 <= len(tries) <= 8
    world.settle()
    world.check_end()


def test_an_unforeseen_error_of_a_look_is_that_of_who_was_looked_at(
    world: ControllerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run(8)
    assert not world.controller.away

    def broken() -> None:
        raise KeyError("an answer of unknown shape")

    monkeypatch.setattr(world.ray, "ping_store", broken)
    world.run(8)
    assert world.controller.away == {"store": "KeyError('an answer of unknown shape')"}


def full(*_: object, **__: object) -> None:
    raise StateError("the disk is full")


def test_an_end_among_two_thousand_that_wait_costs_little(world: ControllerLab) -> None:
    """The step after it admits the next job, and writes that, the one that ended, and the new head."""
    world.apply(*queue("a", 1))
    first = world.submit("first", work=30)
    world.run(4)
    with world.controller.change() as draft:
        asked = JobRequest(
            command=("python",),
            queue="a",
            workers=Workers(1, gpus=1),
            runtime_env={"env_vars": {"GPUS": "1", "WORK": "1000"}},
        )
        for number in range(2_000):
            made = requests.workload(
                asked, f"job-{number:04}", world.controller.setup, "nvidia.com/gpu", draft.now + number
            )
            job = requests.job(replace(asked, metadata={"job_name": f"many {number}"}))
            draft.add(Record(made.key, job, "queued", draft.now), workload_object(made))
    world.reconciler.step()
    written: list[int] = []
    store = world.controller._store
    commit = store.commit

    def counted(batch: Batch) -> None:
        written.append(len(batch.workloads))
        commit(batch)

    store.commit = counted  # type: ignore[method-assign]
    world.clock.now += 30
    began = time.process_time()
    world.reconciler.step()
    spent = time.process_time() - began
    assert world.controller.records[first].phase == DONE
    assert [world.controller.records[key].name for key in world.controller.holding] == ["job-0000"]
    assert written == [3]
    assert spent < 0.25
