"""Lesson 0: what its checks make of two jobs, and the hand that types in a terminal."""

from __future__ import annotations

import pytest

from lab.errors import WaitTimeoutError
from lab.ext.course.lessons.catalogue.lesson_00 import LESSON, said_where, type_it
from lab.ext.course.lessons.evidence import write_records
from lab.ext.course.lessons.model import Evidence, HostTask
from tests.ext.course.lessons.world import AT, LessonLab, answer, evidence, failing, job, name

FIRST, TYPED = name(0, "first"), name(0, "typed")
LOG = "hello from ray-worker-0\nmy folder is /tmp/ray/session/working_dir\n"


def done(log: str = LOG, typed: str = "SUCCEEDED") -> Evidence:
    return evidence(0, job(TYPED, typed), job(FIRST), logs={FIRST: log, TYPED: "typed by hand\n"})


def test_the_lesson_as_its_notebook_does_it_passes() -> None:
    assert failing(LESSON, done()) == []


def test_nothing_done_fails_every_check() -> None:
    assert len(failing(LESSON, evidence(0))) == len(LESSON.checks)


def test_who_never_opened_a_terminal_is_not_through() -> None:
    without = evidence(0, job(FIRST), logs={FIRST: LOG})
    assert failing(LESSON, without) == ["the job of the terminal succeeded"]
    assert failing(LESSON, done(typed="FAILED")) == ["the job of the terminal succeeded"]


@pytest.mark.parametrize(
    ("log", "detail"),
    [
        ("hello from ray-worker-1\n", "it says ray-worker-1, Ray says ray-worker-0"),
        ("hello\n", "no job said hello"),
    ],
)
def test_a_script_that_says_another_node_is_not_believed(log: str, detail: str) -> None:
    check = answer(said_where, done(log))
    assert (check.outcome, check.detail) == ("failed", detail)


def test_what_the_notebook_asks_for_is_typed_and_an_older_wish_is_not() -> None:
    world = LessonLab()
    write_records(world.store, 0, AT - 60, {"typed": "of-another-run"})
    world.clock.after(5, lambda: write_records(world.store, 0, world.clock(), {}))
    world.clock.after(9, lambda: write_records(world.store, 0, world.clock(), {"typed": TYPED}))
    type_it(world.lab, HostTask(world.said.append, world.clock))
    (submission,) = world.jobs.submitted
    assert (submission.submission_id, submission.num_cpus) == (TYPED, 1)
    assert world.said == [f"typed the command of job {TYPED}"]


def test_a_notebook_that_asks_for_nothing_is_given_up() -> None:
    world = LessonLab()
    with pytest.raises(WaitTimeoutError, match="type in a terminal"):
        type_it(world.lab, HostTask(world.said.append, world.clock))
