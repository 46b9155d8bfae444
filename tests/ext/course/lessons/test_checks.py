"""The checks of lessons 1, 2, 3 and 9: what passes, and what a student who did it wrong gets to read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.ext.course.lessons.catalogue import lesson_01, lesson_02, lesson_03, lesson_09
from lab.ext.course.lessons.catalogue.lesson_02 import ran_on_a_gpu_node
from lab.ext.course.lessons.model import Evidence
from lab.topology import GpuPlan, LabStatus, ServiceStatus, State, Vendor
from tests.ext.course.lessons.world import AT, NODES, evidence, failing, job, name

LOG = "epoch 1/2  val_loss 2.1  val_accuracy 0.3000\nepoch 2/2  val_accuracy 0.6545\n"


# 1


TASKS = {"ray-worker-0": "id-of-ray-worker-0", "ray-worker-1": "id-of-ray-worker-1"}


def test_a_whole_lab_with_a_task_on_each_worker_passes() -> None:
    assert failing(lesson_01.LESSON, evidence(1, records={"tasks": TASKS})) == []


@pytest.mark.parametrize(
    ("tasks", "why"),
    [
        (None, "nothing was recorded"),
        ({}, "no task"),
        ({"ray-worker-0": "id-of-ray-worker-0"}, "one worker is missing"),
        ({**TASKS, "ray-worker-1": "made up"}, "an id that Ray does not know"),
        ({**TASKS, "ray-worker-1": "id-of-ray-worker-0"}, "both on one node"),
        (["ray-worker-0", "ray-worker-1"], "another form"),
    ],
)
def test_tasks_that_did_not_run_on_each_worker_are_noticed(tasks: Any, why: str) -> None:
    records = {} if tasks is None else {"tasks": tasks}
    assert len(failing(lesson_01.LESSON, evidence(1, records=records))) == 1, why


def test_a_lost_worker_and_a_worker_without_gpu_are_noticed() -> None:
    lost = (*NODES[:2], replace(NODES[2], alive=False))
    assert "nodes are alive" in failing(lesson_01.LESSON, evidence(1, nodes=lost, records={"tasks": TASKS}))
    bare = (*NODES[:2], replace(NODES[2], resources={"CPU": 8.0}))
    assert failing(lesson_01.LESSON, evidence(1, nodes=bare, records={"tasks": TASKS})) == [
        "each worker has a GPU"
    ]


# 2


def plain(**changes: Any) -> Evidence:
    done = job(name(2, "plain"), **changes.pop("job", {}))
    values: dict[str, Any] = {
        "demands": {done.submission_id: {"GPU": 1.0, "CPU": 8.0}},
        "logs": {done.submission_id: LOG},
    }
    return evidence(2, done, **{**values, **changes})


def test_a_job_that_learned_on_a_worker_passes() -> None:
    assert failing(lesson_02.LESSON, plain()) == []


def test_without_a_job_nothing_of_lesson_2_passes() -> None:
    assert len(failing(lesson_02.LESSON, evidence(2))) == 3
    other = evidence(2, job(name(2, "other")))
    assert len(failing(lesson_02.LESSON, other)) == 3


def test_a_failed_job_and_one_that_still_runs_do_not_pass() -> None:
    assert "the job succeeded" in failing(lesson_02.LESSON, plain(job={"status": "FAILED"}))
    assert "the job succeeded" in failing(lesson_02.LESSON, plain(job={"status": "RUNNING"}))


def test_an_entrypoint_on_the_head_or_without_a_gpu_is_noticed() -> None:
    assert failing(lesson_02.LESSON, plain(job={"node_id": "id-of-ray-head"})) == ["it ran on a GPU node"]
    assert failing(lesson_02.LESSON, plain(demands={})) == ["it ran on a GPU node"]
    answer = ran_on_a_gpu_node(plain(job={"node_id": "id-of-ray-head"}))
    assert "on ray-head" in answer.detail
    assert "--entrypoint-num-gpus" in answer.hint


@pytest.mark.parametrize("log", ["", "epoch 1/1  val_accuracy 0.0909", f"{LOG}epoch 3  val_accuracy 0.1"])
def test_an_accuracy_that_guessing_gives_is_not_enough(log: str) -> None:
    assert failing(lesson_02.LESSON, plain(logs={name(2, "plain"): log})) == ["it learned something"]


# 3


def infeasible(
    *, gpus: float = 2.0, status: str = "FAILED", seconds: float = 18.0, **changes: Any
) -> Evidence:
    values: dict[str, Any] = {"node_id": "", "exit_code": None, **changes}
    stuck = job(name(3, "infeasible"), status, seconds=seconds, **values)
    return evidence(3, stuck, demands={stuck.submission_id: {"GPU": gpus, "CPU": 8.0}})


@pytest.mark.parametrize("status", ["FAILED", "STOPPED"])
def test_a_job_that_waited_and_was_cancelled_passes(status: str) -> None:
    assert failing(lesson_03.LESSON, infeasible(status=status)) == []


def test_a_job_that_still_waits_was_not_cancelled() -> None:
    assert failing(lesson_03.LESSON, infeasible(status="PENDING")) == ["it was cancelled"]


def test_a_job_that_ray_gave_up_was_not_cancelled() -> None:
    assert failing(lesson_03.LESSON, infeasible(seconds=905.0)) == ["it was cancelled"]


def test_a_job_that_was_stopped_at_once_was_not_looked_at() -> None:
    assert failing(lesson_03.LESSON, infeasible(seconds=2.0)) == ["it waited and never ran"]


def test_a_job_for_one_gpu_that_ran_is_another_exercise() -> None:
    ran = infeasible(gpus=1.0, status="SUCCEEDED", node_id="id-of-ray-worker-0", exit_code=0)
    assert failing(lesson_03.LESSON, ran)[:2] == ["no node could hold the job", "it waited and never ran"]
    assert len(failing(lesson_03.LESSON, evidence(3))) == 3


# 9


def status(*up: str) -> LabStatus:
    services = tuple(
        ServiceStatus(service, State.HEALTHY if service in up else State.EXITED)
        for service in ("ray-head", "minio")
    )
    return LabStatus("raylab", "fake", bool(up), services, GpuPlan(Vendor.SIMULATED))


KEPT = {"records": {"kept": {"objects": 12, "bytes": 3400}}, "kept": ("/objects/moto",)}


def test_a_lab_that_is_down_with_its_objects_passes() -> None:
    stopped = job(name(9, "forgotten"), "STOPPED")
    assert failing(lesson_09.LESSON, evidence(9, stopped, status=status(), **KEPT)) == []


def test_a_forgotten_job_that_never_started_was_taken_out_of_the_queue() -> None:
    gone = job(name(9, "forgotten"), "FAILED", node_id="")
    assert failing(lesson_09.LESSON, evidence(9, gone, status=status(), **KEPT)) == []
    assert "out of the queue" in lesson_09.forgotten_job_stopped(evidence(9, gone)).detail


@pytest.mark.parametrize(
    ("state", "changes", "hint"),
    [
        ("SUCCEEDED", {}, "run the notebook from its first cell"),
        ("FAILED", {}, "run the notebook from its first cell"),  # it ran, and broke
        ("FAILED", {"node_id": "", "exit_code": 1}, "run the notebook from its first cell"),
        ("PENDING", {"node_id": ""}, f"`labctl jobs stop {name(9, 'forgotten')}`"),
    ],
)
def test_a_forgotten_job_that_ended_otherwise_was_not_stopped(
    state: str, changes: dict[str, Any], hint: str
) -> None:
    answer = lesson_09.forgotten_job_stopped(evidence(9, job(name(9, "forgotten"), state, **changes)))
    assert (answer.outcome, answer.hint) == ("failed", hint)


def test_what_still_runs_is_named() -> None:
    still = job(name(9, "forgotten"), "RUNNING")
    left = evidence(9, still, running=(still.submission_id, "raysubmit_1"), status=status("minio"), **KEPT)
    assert failing(lesson_09.LESSON, left) == [
        "no job is left running",
        "the forgotten job was stopped",
        "the lab is down",
    ]
    answer = lesson_09.nothing_runs(left)
    assert "raysubmit_1" in answer.detail


@pytest.mark.parametrize(
    "records", [{}, {"kept": 5}, {"kept": {"objects": 0, "bytes": 0}}, {"kept": {"objects": "many"}}]
)
def test_what_is_kept_has_to_be_counted(records: Any) -> None:
    stopped = job(name(9, "forgotten"), "STOPPED")
    uncounted = evidence(9, stopped, status=status(), kept=("/objects",), records=records)
    assert failing(lesson_09.LESSON, uncounted) == ["what is kept was counted"]


def test_deleted_objects_are_noticed() -> None:
    stopped = job(name(9, "forgotten"), "STOPPED")
    deleted = evidence(9, stopped, status=status(), records=KEPT["records"], kept=())
    assert failing(lesson_09.LESSON, deleted) == ["what was stored is kept"]


def test_a_part_of_another_name_that_begins_alike_is_not_meant() -> None:
    other = job(name(6, "packed-two"))
    assert evidence(6, other).job("packed") is None
    assert evidence(6, other).job("packed-two") is other
    newer = job(name(6, "packed-two", "20270115-090000"), started_at=AT + 60)
    assert evidence(6, newer, other).job("packed-two") is newer
