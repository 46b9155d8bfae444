"""What a notebook does with its session."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.api.queue import PodSetView
from lab.cluster.allocation import Waiting
from lab.errors import (
    HeadDownError,
    JobError,
    NotFoundError,
    RefusedError,
    StoreError,
    UsageError,
    WaitTimeoutError,
)
from lab.ext.course.lessons.evidence import records_key
from lab.ext.course.lessons.results import store_key
from lab.ext.course.lessons.session import Session
from tests.ext.course.lessons.world import AT, LessonLab, job, name


@pytest.fixture
def world() -> LessonLab:
    return LessonLab()


def session(world: LessonLab, number: int = 2) -> Session:
    return Session(number, world.lab, say=world.said.append, clock=world.clock)


def test_a_session_says_which_lesson_begins_and_remembers_when(world: LessonLab) -> None:
    begun = session(world)
    assert world.said == ["Lesson 2: A job (lab raylab)"]
    assert begun.began_at == AT
    assert world.kept(records_key(2)) == {"lesson": 2, "began_at": AT, "records": {}}


def test_a_lesson_that_is_not_there_is_refused(world: LessonLab) -> None:
    with pytest.raises(NotFoundError):
        session(world, 77)


def test_a_new_job_is_named_after_lesson_part_and_time_and_never_twice(world: LessonLab) -> None:
    begun = session(world)
    names = [begun.new_job("two-workers") for _ in range(3)]
    assert len(set(names)) == 3
    assert all(name.startswith("lesson-02-two-workers-20") for name in names)
    assert len(names[0]) == len("lesson-02-two-workers-20261121-154500")


@pytest.mark.parametrize("part", ["", "Two", "two workers", "-two", "x" * 60])
def test_a_part_that_would_be_no_id_is_refused(world: LessonLab, part: str) -> None:
    with pytest.raises(UsageError):
        session(world).new_job(part)


def test_waiting_prints_the_log_as_it_grows_and_returns_the_job(world: LessonLab) -> None:
    begun = session(world)
    world.said.clear()
    world.jobs.add(job("j", "PENDING"))
    world.jobs.then(job("j", "RUNNING"), "one\nhal")
    world.jobs.then(job("j", "RUNNING"), "one\nhalf\n")
    world.jobs.then(job("j"), "one\nhalf\nlast")
    assert begun.wait("j").status == "SUCCEEDED"
    assert world.said == ["one", "half", "last"]


def test_a_job_that_was_submitted_a_moment_ago_is_waited_for(world: LessonLab) -> None:
    begun = session(world)
    world.clock.after(5, lambda: world.jobs.add(job("late"), "here\n"))
    assert begun.wait("late").submission_id == "late"
    with pytest.raises(NotFoundError):
        begun.wait("never")


def test_a_failed_job_raises_with_its_last_lines(world: LessonLab) -> None:
    begun = session(world)
    world.jobs.add(job("j", "FAILED", message="exit code 1"), "first\nno pictures in /mnt\n")
    with pytest.raises(JobError, match=r"(?s)exit code 1.*no pictures") as caught:
        begun.wait("j")
    assert "from its first cell: an id can be used once" in caught.value.hint


def test_a_job_that_does_not_end_raises_after_its_deadline_with_what_to_do(world: LessonLab) -> None:
    begun = session(world)
    world.jobs.add(job("j", "PENDING"))
    with pytest.raises(WaitTimeoutError, match="still PENDING after 30 s") as caught:
        begun.wait("j", seconds=30)
    assert "labctl jobs show j" in caught.value.hint
    assert world.clock() - AT < 35


def test_what_is_measured_is_kept_until_the_lesson_begins_anew(world: LessonLab) -> None:
    begun = session(world)
    begun.record("seconds", 12.5)
    begun.record("places", {"ray-worker-0": 2})
    assert world.kept(records_key(2))["records"] == {"seconds": 12.5, "places": {"ray-worker-0": 2}}
    session(world)
    assert world.kept(records_key(2))["records"] == {}


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, Path("/x")])
def test_a_value_that_is_no_json_is_refused_and_the_others_stay(world: LessonLab, value: object) -> None:
    begun = session(world)
    begun.record("good", 1)
    with pytest.raises(UsageError, match="bad"):
        begun.record("bad", value)
    assert world.kept(records_key(2))["records"] == {"good": 1}


def test_why_a_job_waits_is_told_in_a_sentence(world: LessonLab) -> None:
    begun = session(world, 3)
    world.jobs.add(job("j", "PENDING"))
    assert begun.why("j") == ""
    reason = "no node has 2 GPU; the largest has 1"
    world.waits["j"] = Waiting("j", "infeasible", "entrypoint", {"GPU": 2.0}, 1, reason)
    assert begun.why("j") == reason


def test_the_self_check_prints_a_table_and_keeps_the_result(world: LessonLab) -> None:
    begun = session(world)
    world.jobs.add(job(name(2, "plain")), "epoch 1  val_accuracy 0.8182\n")
    world.api.demands[name(2, "plain")] = {"GPU": 1.0, "CPU": 8.0}
    world.said.clear()
    result = begun.check()
    assert result.passed
    assert world.said[0].startswith("Lesson 2, A job: passed (3 of 3 checks)")
    assert [line.split()[0] for line in world.said[1:]] == ["ok", "ok", "ok"]
    assert world.kept(store_key(2)) == result.to_json()


def test_what_only_the_host_can_ask_stays_open_in_a_notebook(world: LessonLab) -> None:
    begun = session(world, 9)
    world.jobs.add(job(name(9, "forgotten"), "STOPPED"))
    begun.record("kept", {"objects": 12, "bytes": 3400})
    world.said.clear()
    result = begun.check()
    assert not result.passed
    assert world.said[0].startswith("Lesson 9, Clean up: not passed yet (3 of 5 checks)")
    marks = [line.split()[0] for line in world.said[1:]]
    assert marks == ["ok", "ok", "ok", "then", "->", "then", "->"]
    assert "labctl lesson check 9" in world.said[-1]
    assert [check["passed"] for check in world.kept(store_key(9))["checks"]] == [True] * 3 + [False] * 2


def test_a_student_who_did_nothing_is_told_what_to_do(world: LessonLab) -> None:
    result = session(world).check()
    assert not result.passed
    assert "not passed yet (0 of 3 checks)" in world.said[1]
    assert any("-> run the notebook from its first cell" in line for line in world.said)


def test_a_silent_store_is_an_error_of_the_first_cell(world: LessonLab) -> None:
    world.store.failure = StoreError("the object store cannot be reached")
    with pytest.raises(StoreError):
        session(world)


def test_answers_are_kept_and_handed_in_beside_the_checks(world: LessonLab) -> None:
    begun = session(world)
    world.said.clear()
    begun.answer(2, "\n Nothing: they were on its disk. \n")
    begun.answer(1, "\n\n")
    assert world.said == ["answer 2: kept", "answer 1: none yet"]
    begun.record("seconds", 12.5)
    result = begun.check()
    assert world.said[-1] == "  with an answer to question 2"
    assert result.document.answers == {"2": "Nothing: they were on its disk."}
    assert result.document.measured == {"seconds": 12.5}
    assert world.kept(store_key(2))["answers"] == {"2": "Nothing: they were on its disk."}


def test_answers_outlive_a_new_session_and_an_empty_cell(world: LessonLab) -> None:
    session(world).answer(1, "it waits")
    again = session(world)
    again.answer(1, "")
    assert world.said[-1] == "answer 1: kept"
    assert again.check().document.answers == {"1": "it waits"}
    again.answer(1, "it is idle")
    assert again.check().document.answers == {"1": "it is idle"}


def test_a_result_without_answers_is_as_before(world: LessonLab) -> None:
    assert "answers" not in session(world).check().to_json()


def test_an_answer_that_is_a_book_is_refused(world: LessonLab) -> None:
    with pytest.raises(UsageError, match="4000 are the most"):
        session(world).answer(1, "x" * 4001)


def test_until_waits_for_what_counts_as_true(world: LessonLab) -> None:
    begun = session(world)
    seen: list[int] = []
    world.clock.after(3, lambda: seen.append(7))
    assert begun.until(lambda: seen, "a number", 60) == [7]
    with pytest.raises(WaitTimeoutError, match=r"job j: .* 5 s"):
        begun.until(lambda: False, "the end of job j", 5)


def test_until_says_that_the_head_is_down_and_waits_no_longer(world: LessonLab) -> None:
    """Nothing that a lesson waits for comes without a head; a TimeoutError would not say so."""
    begun = session(world)
    world.api.down = HeadDownError("the head is down: Ray's dashboard takes no connection")
    with pytest.raises(HeadDownError, match="the head is down"):
        begun.until(lambda: False, "a checkpoint", 600)
    assert world.said[-1].startswith("the head is down")
    assert world.clock() - AT < 40


def test_until_bears_a_head_that_is_started_again(world: LessonLab) -> None:
    begun = session(world)
    world.api.down = HeadDownError("the head is down")
    world.clock.after(10, lambda: setattr(world.api, "down", None))
    assert begun.until(lambda: world.clock() - AT > 20, "the end", 60)
    assert world.said[-2:] == ["the head is down", "the head answers again"]


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("local", "in a terminal (File, New, Terminal)"),
        ("inside", "on the host"),
        ("class", "in a terminal (File, New, Terminal)"),
    ],
)
def test_a_command_of_labctl_is_typed_where_it_can_be(
    world: LessonLab, monkeypatch: pytest.MonkeyPatch, kind: str, place: str
) -> None:
    begun = session(world)
    monkeypatch.setattr(type(world.lab.view), "kind", kind)
    begun.on_host("fault-inject ray-worker-0")
    assert place in world.said[-1].splitlines()[0]
    assert world.said[-1].endswith("\nlabctl fault-inject ray-worker-0")


def test_a_person_of_a_class_has_jobs_and_a_folder_of_her_own(
    world: LessonLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(world.lab.view), "person", "ann")
    begun = session(world)
    assert begun.new_job("plain").startswith("ann-lesson-02-plain-")
    begun.answer(1, "it waits")
    begun.check()
    keys = [entry.key for entry in world.store.list("") if "lessons" in entry.key]
    assert sorted(keys) == [f"people/ann/{store_key(2)}", f"people/ann/{records_key(2)}"]


def test_a_lesson_that_changes_the_lab_is_refused_to_a_person_of_a_class(
    world: LessonLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(world.lab.view), "person", "ann")
    with pytest.raises(RefusedError, match="changes the lab itself"):
        session(world, 10)


def test_a_person_of_a_class_asks_the_queues_why_her_job_waits(
    world: LessonLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(world.lab.view), "person", "ann")
    begun = session(world, 3)
    world.jobs.add(job("j", "PENDING"))
    why = SimpleNamespace(waits="insufficient quota for nvidia.com/gpu", message="")
    asked = SimpleNamespace(pod_sets=(PodSetView("driver", 1, None, {"nvidia.com/gpu": 2}),))
    queues = SimpleNamespace(why=lambda _: why, describe=lambda _: asked)
    monkeypatch.setattr(world.lab, "queues", queues)
    assert begun.why("j") == "insufficient quota for nvidia.com/gpu"
    why.waits = ""  # it has left its queue, and waits in Ray
    assert "no node has 2 GPU" in begun.why("j")
