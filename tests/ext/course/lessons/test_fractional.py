"""The checks of lesson 6: three jobs on two GPUs, at once and in turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.cluster.jobs import Job
from lab.evidence.ledger import History, Report, Run, RunAttempt
from lab.evidence.ledger.model import TrainingPlan
from lab.ext.course.lessons.catalogue.lesson_06 import AT_ONCE, IN_TURN, LESSON
from lab.ext.course.lessons.model import Evidence
from tests.ext.course.lessons.world import AT, evidence, failing, job, name

W0, W1 = "id-of-ray-worker-0", "id-of-ray-worker-1"
GOOD = {"at_once": 32.0, "in_turn": 60.0}


def run(part: str, node: str, begin: float, end: float, gpus: float) -> Run:
    attempt = RunAttempt(
        number=1, nodes={0: node}, scheduled_at=begin, started_at=begin, training_started_at=begin,
        failure_detected_at=None, ended_at=end, reports=(Report(end, 15, {}, None),),
        requests=(), loads=(), furthest=15,
    )  # fmt: skip
    plan = TrainingPlan(15, 1, {"GPU": gpus, "CPU": 4.0}, 2)
    return Run(name(6, part), "run", plan, end, None, "epoch", False, 1, (attempt,), ())


def gathered(
    *,
    nodes: tuple[str, str, str] = (W0, W1, W0),
    gpus: float = 0.5,
    begins: tuple[float, float, float] = (20, 21, 22),
    status: str = "SUCCEEDED",
    turns: tuple[float, float, float] = (60, 80, 100),
    **changes: Any,
) -> Evidence:
    """Three jobs at once, submitted a second apart, 30 s each; then one every 20 s."""
    jobs: list[Job] = []
    histories: dict[str, History] = {}
    for index, part in enumerate(AT_ONCE):
        part_job = job(name(6, part), started_at=AT + 10 + index, ended_at=AT + 40 + index)
        jobs.append(part_job)
        trained = run(part, nodes[index], AT + begins[index], AT + begins[index] + 15, gpus)
        histories[part_job.submission_id] = History((trained,))
    for begin, part in zip(turns, IN_TURN, strict=True):
        part_job = job(name(6, part), started_at=AT + begin, ended_at=AT + begin + 20)
        jobs.append(part_job)
        trained = run(part, W0, AT + begin + 8, AT + begin + 18, gpus)
        histories[part_job.submission_id] = History((trained,))
    jobs[-1] = replace(jobs[-1], status=status)
    values: dict[str, Any] = {"histories": histories, "records": {"seconds": GOOD}}
    return evidence(6, *jobs, **{**values, **changes})


def test_three_jobs_packed_two_and_one_pass_and_the_ratio_is_told() -> None:
    assert failing(LESSON, gathered()) == []
    answer = LESSON.checks[-1](gathered())
    assert answer.detail == "in turn 60 s, at once 32 s: 1.88 times as long"


def test_without_jobs_nothing_passes() -> None:
    assert len(failing(LESSON, evidence(6))) == len(LESSON.checks)


def test_a_job_that_failed_or_was_never_submitted_is_noticed() -> None:
    assert failing(LESSON, gathered(status="FAILED")) == ["six jobs succeeded"]
    whole = gathered()
    assert "six jobs succeeded" in failing(LESSON, replace(whole, jobs=whole.jobs[1:]))


@pytest.mark.parametrize("nodes", [(W0, W0, W0), (W1, W1, W1), (W0, W1, "id of a lost node")])
def test_another_packing_than_two_and_one_is_noticed(nodes: tuple[str, str, str]) -> None:
    assert failing(LESSON, gathered(nodes=nodes)) == ["packed two and one"]


def test_whole_gpus_are_noticed() -> None:
    assert failing(LESSON, gathered(gpus=1.0)) == ["each asked for half a GPU"]


def test_jobs_that_did_not_train_at_the_same_time_are_noticed() -> None:
    assert failing(LESSON, gathered(begins=(20, 21, 36))) == ["at once, and in turn"]


def test_jobs_in_turn_that_overlap_are_noticed() -> None:
    seen = gathered(turns=(60, 70, 100))
    assert failing(LESSON, seen) == ["at once, and in turn"]


@pytest.mark.parametrize(
    "seconds",
    [
        None,
        {},
        {"at_once": 32.0},
        {"at_once": "32", "in_turn": 60.0},
        {"at_once": 12.0, "in_turn": 60.0},
        1.9,
    ],
)
def test_times_that_are_not_those_of_the_jobs_are_noticed(seconds: Any) -> None:
    records = {} if seconds is None else {"seconds": seconds}
    assert failing(LESSON, gathered(records=records)) == ["the ratio is right"]


def test_in_a_class_the_times_are_those_of_the_queues_which_the_notebook_has() -> None:
    """A job is admitted before Ray takes it, and its end is seen later: on a busy machine long after."""
    seen = gathered(records={"seconds": {"at_once": 37.0, "in_turn": 90.0}})
    jobs = tuple(replace(job, submission_id=f"ann-{job.submission_id}") for job in seen.jobs)
    queued = [replace(job, started_at=(job.started_at or 0) - 5, ended_at=job.ended_at) for job in jobs[:3]]
    queued += [
        replace(job, started_at=(job.started_at or 0) - 15 * (i == 0), ended_at=(job.ended_at or 0) + 15)
        for i, job in enumerate(jobs[3:])
    ]
    hers = replace(seen, person="ann", jobs=jobs, queued=tuple(queued))
    assert LESSON.checks[-1](hers).outcome == "passed"
    late = replace(hers, records={"seconds": {"at_once": 37.0, "in_turn": 60.0}})
    assert LESSON.checks[-1](late).outcome == "failed"
