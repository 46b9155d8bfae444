"""The checks of lessons 4, 5 and 8: what passes, and what a student who did it wrong gets to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from lab.cluster.jobs import Job
from lab.evidence.ledger import Event, History
from lab.ext.course.lessons.catalogue import lesson_04, lesson_05, lesson_08
from lab.ext.course.lessons.model import Evidence, Lesson
from tests.ext.course.lessons.world import AT, evidence, failing, job, name

HASH, OTHER_HASH = "a" * 64, "b" * 64


def run(
    submission: str,
    *,
    run: str = "run",
    services: tuple[str, ...] = ("ray-worker-0",),
    epochs: int = 3,
    reached: Mapping[int, int] | None = None,
    hashes: tuple[str, ...] = (HASH, HASH),
    gpus: float = 1,
    accuracy: float = 0.8,
) -> list[Event]:
    """The ledger's events of one run: each rank reports its epochs, rank 0 with a checkpoint."""

    def event(kind: str, at: float, rank: int | None = None, attempt: int = 1, **fields: Any) -> Event:
        return Event(kind, AT + at, submission, run, attempt, rank, "", fields)

    workers = [{"rank": i, "node_id": f"id-of-{s}", "pid": i} for i, s in enumerate(services)]
    events = [
        event(
            "run_started",
            11,
            attempt=0,
            num_workers=len(services),
            resources_per_worker={"GPU": gpus, "CPU": 8},
            config={"epochs": epochs},
        ),
        event("attempt_started", 12, workers=workers),
    ]
    for rank in range(len(services)):
        for epoch in range(1, (reached or {}).get(rank, epochs) + 1):
            metrics = {"epoch": epoch, "val_accuracy": accuracy, "weights_sha256": hashes[rank]}
            uri = f"s3://ray/{run}/checkpoint_{epoch}" if rank == 0 else None
            events.append(event("report", 12 + epoch, rank, metrics=metrics, checkpoint=uri))
            if uri:
                events.append(event("checkpoint_committed", 12 + epoch, uri=uri, metrics=metrics))
    return events


def gathered(lesson: int, jobs: tuple[Job, ...], events: list[Event], **changes: Any) -> Evidence:
    histories = {
        job.submission_id: History.of([e for e in events if e.job == job.submission_id]) for job in jobs
    }
    return evidence(lesson, *jobs, histories=histories, **changes)


# 4

ONE = name(4, "one-worker")
STORED = tuple(f"run/checkpoint_{epoch}/checkpoint.ckpt" for epoch in (1, 2, 3))


def test_a_training_with_a_rank_on_a_gpu_and_all_its_checkpoints_passes() -> None:
    assert failing(lesson_04.LESSON, gathered(4, (job(ONE),), run(ONE), store_objects=STORED)) == []


@pytest.mark.parametrize(
    ("status", "changes", "stored", "failed"),
    [
        ("FAILED", {}, STORED, ["the job succeeded"]),
        ("RUNNING", {}, STORED, ["the job succeeded"]),
        ("SUCCEEDED", {"services": ("ray-head",)}, STORED, ["one rank, on a GPU node"]),
        ("SUCCEEDED", {"gpus": 0}, STORED, ["one rank, on a GPU node"]),
        (
            "SUCCEEDED",
            {"services": ("ray-worker-0", "ray-worker-1")},
            STORED,
            ["one rank, on a GPU node"],
        ),
        ("SUCCEEDED", {}, STORED[1:], ["a checkpoint of every epoch is in the store"]),
        ("SUCCEEDED", {"reached": {0: 2}}, STORED, ["a checkpoint of every epoch is in the store"]),
        ("SUCCEEDED", {"accuracy": 0.1}, STORED, ["it learned something"]),
        ("SUCCEEDED", {"accuracy": float("nan")}, STORED, ["it learned something"]),
    ],
)
def test_what_is_wrong_with_a_training_is_named(
    status: str, changes: dict[str, Any], stored: tuple[str, ...], failed: list[str]
) -> None:
    evidence = gathered(4, (job(ONE, status),), run(ONE, **changes), store_objects=stored)
    assert failing(lesson_04.LESSON, evidence) == failed


@pytest.mark.parametrize("lesson", [lesson_04.LESSON, lesson_05.LESSON, lesson_08.LESSON])
def test_nothing_passes_where_nothing_was_submitted(lesson: Lesson) -> None:
    assert len(failing(lesson, evidence(lesson.number))) == len(lesson.checks)


def test_a_job_without_ray_train_is_no_training_with_ray_train() -> None:
    assert len(failing(lesson_04.LESSON, gathered(4, (job(ONE),), []))) == len(lesson_04.LESSON.checks) - 1


# 5

FIRST, SECOND = name(5, "one-worker"), name(5, "two-workers")
BOTH = ("ray-worker-0", "ray-worker-1")
MEASURED = {"seconds_per_epoch": {"one": 2.0, "two": 1.5}}


def two(records: Mapping[str, Any] = MEASURED, **changes: Any) -> Evidence:
    events = [*run(FIRST), *run(SECOND, run="second", **{"services": BOTH, **changes})]
    return gathered(5, (job(SECOND), job(FIRST)), events, records=records)


def test_two_ranks_on_two_nodes_with_one_network_pass() -> None:
    assert failing(lesson_05.LESSON, two()) == []


@pytest.mark.parametrize(
    ("changes", "failed"),
    [
        ({"services": ("ray-worker-0", "ray-worker-0")}, ["two ranks, each on a node of its own"]),
        ({"gpus": 0.5}, ["two ranks, each on a node of its own"]),
        ({"reached": {1: 2}}, ["both ranks trained to the end"]),
        ({"hashes": (HASH, OTHER_HASH)}, ["both ranks hold the same network"]),
        ({"hashes": ("same", "same")}, ["both ranks hold the same network"]),
        (
            {"services": ("ray-worker-0",)},
            [
                "two ranks, each on a node of its own",
                "both ranks trained to the end",
                "both ranks hold the same network",
            ],
        ),
    ],
)
def test_ranks_that_did_not_train_together_are_noticed(changes: dict[str, Any], failed: list[str]) -> None:
    assert failing(lesson_05.LESSON, two(**changes)) == failed


@pytest.mark.parametrize(
    "measured",
    [
        None,
        {},
        {"one": 2.0},
        {"one": 2.0, "two": -1.0},
        {"one": 2.0, "two": 20.0},  # 3 epochs of 20 s do not fit into a job of 20 s
        {"one": "fast", "two": "faster"},
        [2.0, 1.5],
    ],
)
def test_times_that_do_not_fit_the_jobs_are_not_believed(measured: Any) -> None:
    records = {} if measured is None else {"seconds_per_epoch": measured}
    assert failing(lesson_05.LESSON, two(records)) == ["the time per epoch was compared"]


# 8

TUNE = name(8, "tune")
EPOCHS = (4, 1, 1, 4, 2, 1)


def tuned(*epochs: int, log: str | None = None, again: tuple[Event, ...] = ()) -> Evidence:
    """Trials of 4 planned epochs that trained so many."""
    events = [e for i, n in enumerate(epochs) for e in run(TUNE, run=f"trial_{i}", epochs=4, reached={0: n})]
    planned = 4 * len(epochs)
    if log is None:
        saved = 100 * (1 - sum(epochs) / planned) if planned else 0
        log = f"epochs: ..., compute saved: {saved:.0f} %\nbest: dropout 0.2, val_accuracy 0.8000, epoch 4\n"
    return gathered(8, (job(TUNE),), [*events, *again], logs={TUNE: log})


def test_trials_of_which_some_were_stopped_early_pass() -> None:
    assert failing(lesson_08.LESSON, tuned(*EPOCHS)) == []


def test_a_trial_that_was_started_again_counts_once_and_as_far_as_it_came() -> None:
    again = tuple(run(TUNE, run="trial_1", epochs=4, reached={0: 4}))
    later = tuple(replace(e, at=e.at + 50) for e in again)
    trials = lesson_08.trials(tuned(*EPOCHS, again=later))
    assert [trial.epochs for trial in trials] == [4, 4, 1, 4, 2, 1]


def test_a_trial_that_failed_was_neither_tried_nor_stopped_early() -> None:
    ended = [
        Event("run_finished", AT + 90, TUNE, f"trial_{i}", 1, None, "", {"error": error})
        for i, error in ((0, None), (1, "RuntimeError('broken')"))
    ]
    trials = lesson_08.trials(tuned(*EPOCHS, again=tuple(ended)))
    assert [trial.epochs for trial in trials] == [4, 1, 4, 2, 1]
    assert failing(
        lesson_08.LESSON,
        tuned(
            4,
            4,
            4,
            4,
            4,
            1,
            again=tuple(
                replace(event, run=f"trial_{5 - number}") for number, event in enumerate(reversed(ended))
            ),
        ),
    ) == [
        "several settings were tried",
        "poor trials were stopped early, good ones were not",
        "compute was saved",
    ]


@pytest.mark.parametrize(
    ("epochs", "failed"),
    [
        ((4, 1, 1), ["several settings were tried"]),
        ((4,) * 6, ["poor trials were stopped early, good ones were not", "compute was saved"]),
        ((1,) * 6, ["poor trials were stopped early, good ones were not"]),
    ],
)
def test_trials_that_show_no_early_stopping_are_noticed(epochs: tuple[int, ...], failed: list[str]) -> None:
    assert failing(lesson_08.LESSON, tuned(*epochs)) == failed


@pytest.mark.parametrize(
    ("saved", "accuracy", "failed"),
    [
        (46, 0.8, []),
        (90, 0.8, ["compute was saved"]),
        (46, 0.1, ["the best settings are known"]),
    ],
)
def test_a_sum_that_the_ledger_does_not_bear_out_is_not_believed(
    saved: int, accuracy: float, failed: list[str]
) -> None:
    log = f"compute saved: {saved} %\nbest: dropout 0.2, val_accuracy {accuracy:.4f}, epoch 4\n"
    assert failing(lesson_08.LESSON, tuned(*EPOCHS, log=log)) == failed


def test_a_log_without_its_end_proves_nothing() -> None:
    unfinished = tuned(*EPOCHS, log="trial 1 started\n")
    assert failing(lesson_08.LESSON, unfinished) == ["compute was saved", "the best settings are known"]
