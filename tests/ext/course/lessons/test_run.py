"""The flow of a lesson: lab, data, notebook, checks; and what happens when a part of it fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from lab.errors import LabDownError, LabError, LessonError, RefusedError, StoreError
from lab.ext.course.lessons.catalogue import find_lesson
from lab.ext.course.lessons.model import (
    Evidence,
    HostTask,
    Lesson,
    LessonCheck,
    LessonResult,
    NotebookOverError,
    check,
    holds,
)
from lab.ext.course.lessons.results import RESULT_FILE, keep_in_store, store_key
from lab.ext.course.lessons.run import NotebookStep, check_lesson, collect, results, run_lesson
from lab.ext.course.lessons.session import Session
from lab.runtime.base import Execution
from lab.services import JUPYTER
from lab.topology import LabSpec, LabStatus
from tests.ext.course.lessons.world import AT, NODES, LessonLab, job, name

COMMAND = ("python", "-m", "lab.ext.course.lessons.execute")


@check("good")
def good(evidence: Evidence) -> str:
    return "as it should be"


@check("bad", "do it")
def bad(evidence: Evidence) -> str:
    return holds(False, "not yet")


@check("down", "take it down")
def is_down(evidence: Evidence) -> str:
    return holds(not evidence.status.up, f"up: {evidence.status.up}")


def lesson(*checks: LessonCheck, **changes: Any) -> Lesson:
    return Lesson(2, "a-job", "A job", 5, checks or (good,), **changes)


def argv(item: Lesson) -> tuple[str, ...]:
    seconds = ("--seconds", f"{item.seconds:g}")
    return (*COMMAND, f"notebooks/{item.notebook}", "--lesson", str(item.number), *seconds)


EVENTS: tuple[dict[str, Any], ...] = (
    {"event": "started", "pid": 77, "cells": 2},
    {
        "event": "cell",
        "number": 1,
        "of": 2,
        "line": "session = Session(2)",
        "seconds": 0.5,
        "output": "hello",
    },
    {"event": "cell", "number": 2, "of": 2, "line": "session.check()", "seconds": 0.1, "output": ""},
    {"event": "stored", "key": ".raylab/lessons/02/notebook.ipynb"},
)


class Runs:
    """Runs a lesson in a world, and remembers what was told and asked."""

    def __init__(self, world: LessonLab) -> None:
        self.world = world
        self.steps: list[NotebookStep] = []
        self.data: list[str] = []

    def __call__(self, item: Lesson, spec: Callable[[], LabSpec] = LabSpec) -> Any:
        return run_lesson(
            self.world.lab,
            item,
            spec,
            get_data=self.get,
            on_step=self.steps.append,
            clock=self.world.clock,
        )

    def get(self, name: str, say: Callable[[str], None]) -> None:
        self.data.append(name)
        say(f"drew {name}")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAYLAB_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def world() -> LessonLab:
    return LessonLab()


@pytest.fixture
def run(world: LessonLab) -> Runs:
    return Runs(world)


def test_a_lab_that_is_down_is_started_and_the_notebook_executed_and_checked(home: Path) -> None:
    world = LessonLab(up=False)
    run = Runs(world)
    item = lesson(needs=("food11",))
    world.notebook(argv(item), *EVENTS)
    result = run(item)
    assert result.passed
    assert world.runtime.calls("up") == (("up",),)
    assert run.data == ["food11"]
    assert [(step.kind, step.text, step.seconds) for step in run.steps] == [
        ("note", "drew food11", None),
        ("cell", "session = Session(2)", 0.5),
        ("cell", "session.check()", 0.1),
    ]
    assert world.kept(store_key(2)) == result.to_json()
    assert results(world.lab) == {2: result.document}
    assert (home / "raylab" / "lessons" / RESULT_FILE.format(2)).is_file()


def test_a_lab_that_is_up_is_used_as_it_is(world: LessonLab, run: Runs) -> None:
    world.notebook(argv(lesson()), *EVENTS)

    def no_spec() -> LabSpec:
        raise AssertionError("a lab that is up needs no plan")

    assert run(lesson(), no_spec).passed
    assert run(lesson(), no_spec).passed, "twice in a row"


def test_a_lab_that_the_commands_of_the_course_do_not_fit_is_refused(world: LessonLab, run: Runs) -> None:
    small = tuple(replace(node, resources={"CPU": 2.0, "GPU": 1.0}) for node in NODES[1:])
    world.api.all = (NODES[0], *small)
    with pytest.raises(RefusedError, match="8 CPUs"):
        run(lesson())
    world.api.all = NODES[:2]
    with pytest.raises(RefusedError, match="has 1 of them"):
        run(lesson())


def test_a_cell_that_fails_is_named_and_nothing_is_checked(world: LessonLab, run: Runs, home: Path) -> None:
    why = {"event": "failed", "number": 2, "of": 2, "error": "JobError: job x ended FAILED"}
    world.notebook(argv(lesson()), *EVENTS[:3], why, EVENTS[-1], exit_code=3)
    with pytest.raises(LessonError, match=r"cell 2 .*JobError: job x") as caught:
        run(lesson())
    assert caught.value.exit_code == 19
    assert "s3://ray/.raylab/lessons/02/notebook.ipynb" in caught.value.hint
    assert not (home / "raylab" / "lessons").exists()


def test_a_notebook_that_is_not_there_says_so(world: LessonLab, run: Runs) -> None:
    event = {
        "event": "failed",
        "number": 0,
        "of": 0,
        "error": "there is no notebook notebooks/x in /workspace",
    }
    world.notebook(argv(lesson()), event, exit_code=3)
    with pytest.raises(LessonError, match="there is no notebook"):
        run(lesson())


def test_a_jupyter_without_what_executes_notebooks_shows_what_it_said(world: LessonLab, run: Runs) -> None:
    world.runtime.answer(JUPYTER, argv(lesson()), "No module named nbclient\n", 1)
    with pytest.raises(LessonError, match="No module named nbclient"):
        run(lesson())


def test_without_jupyter_the_error_says_how_to_start_it(world: LessonLab, run: Runs) -> None:
    world.runtime.stop(JUPYTER)
    with pytest.raises(LabDownError, match="jupyter is not running") as caught:
        run(lesson())
    assert "labctl restart jupyter" in caught.value.hint


def test_an_interrupted_notebook_is_ended_where_it_runs_and_the_lab_stays(
    world: LessonLab, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Sequence[str]] = []

    def execute(
        service: str, words: Sequence[str], *, timeout: float = 60.0, on_line: Any = None
    ) -> Execution:
        asked.append(words)
        if on_line is not None:
            on_line('{"event": "started", "pid": 77, "cells": 2}')
            raise KeyboardInterrupt
        return Execution(0, "")

    monkeypatch.setattr(world.runtime, "execute", execute)
    with pytest.raises(KeyboardInterrupt):
        run(lesson())
    assert asked == [argv(lesson()), (*COMMAND, "--stop", "77")]
    assert world.runtime.status().up


def test_a_lesson_that_fails_or_is_interrupted_stops_its_own_jobs_and_no_others(
    world: LessonLab, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, stuck = name(2, "plain"), name(2, "plain", "20270115-080001")
    world.notebook(argv(lesson()), {"event": "failed", "number": 1, "of": 2, "error": "E: x"}, exit_code=3)
    for number, job_id in enumerate((own, stuck, name(4, "one-worker"), "raysubmit_1")):
        world.jobs.add(job(job_id, "RUNNING", started_at=AT + number))
    world.jobs.unstoppable = {stuck}
    with pytest.raises(LessonError):
        run(lesson())
    assert [job.submission_id for job in world.jobs.list() if job.final] == [own]
    steps = [step.text for step in run.steps]
    assert f"stopping job {own}" in steps
    assert f"job {stuck} is not stopped: Ray could not stop job {stuck}" in steps

    def interrupted(*_: Any, **__: Any) -> Execution:
        raise KeyboardInterrupt

    world.jobs.unstoppable = set()
    monkeypatch.setattr(world.runtime, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(lesson())
    assert world.jobs.get(stuck).status == "STOPPED"
    assert world.jobs.get("raysubmit_1").status == "RUNNING"


def test_a_second_interrupt_says_that_jobs_may_be_left(
    world: LessonLab, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    world.jobs.add(job(name(2, "plain"), "RUNNING", started_at=AT))
    monkeypatch.setattr(world.runtime, "execute", interrupted)
    monkeypatch.setattr(world.jobs, "stop", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(lesson())
    assert run.steps[-1].text.startswith("jobs of lesson 2 may still run; `labctl jobs")


def test_a_lesson_that_fails_cancels_its_jobs_in_queues(world: LessonLab, run: Runs) -> None:
    class Answers:
        cancelled: ClassVar[list[str]] = []

        def list(self) -> SimpleNamespace:
            names = (name(2, "waits"), name(2, "stuck"), name(4, "waits"), "job-abc")
            rows = [SimpleNamespace(workload=f"ns/{name}", name=name) for name in names]
            return SimpleNamespace(workloads=rows)

        def cancel(self, workload: str) -> None:
            if "stuck" in workload:
                raise RefusedError("it has ended already")
            self.cancelled.append(workload)

    world.lab.__dict__["queues"] = Answers()
    world.notebook(argv(lesson()), {"event": "failed", "number": 1, "of": 2, "error": "E: x"}, exit_code=3)
    with pytest.raises(LessonError):
        run(lesson())
    assert Answers.cancelled == [f"ns/{name(2, 'waits')}"]
    steps = [step.text for step in run.steps]
    assert f"job ns/{name(2, 'stuck')} is not stopped: it has ended already" in steps


# Beside the notebook


def test_a_host_task_is_waited_for_and_heard(world: LessonLab, run: Runs) -> None:
    done = threading.Event()

    def on_host(lab: Any, task: HostTask) -> None:
        assert lab.name == "raylab"
        task.say("breaking ray-worker-0")
        done.set()

    item = lesson(host_task=on_host)
    world.notebook(argv(item), *EVENTS)
    assert run(item).passed
    assert done.is_set()
    assert NotebookStep("beside", "breaking ray-worker-0") in run.steps


def test_a_host_task_beside_a_notebook_that_failed_is_told_to_end_and_mends_what_it_broke(
    world: LessonLab, run: Runs
) -> None:
    mended = threading.Event()

    def on_host(lab: Any, task: HostTask) -> None:
        try:
            task.clock.sleep(3600)
        except NotebookOverError:
            mended.set()
            raise

    item = lesson(host_task=on_host)
    world.notebook(argv(item), {"event": "failed", "number": 1, "of": 2, "error": "E: x"}, exit_code=3)
    with pytest.raises(LessonError):
        run(item)
    assert mended.is_set()
    assert [step for step in run.steps if step.kind == "beside"] == []


def test_an_error_of_a_host_task_is_said_and_the_checks_decide(world: LessonLab, run: Runs) -> None:
    def on_host(lab: Any, task: HostTask) -> None:
        raise LabError("no job to break", "wait")

    item = lesson(bad, host_task=on_host)
    world.notebook(argv(item), *EVENTS)
    assert not run(item).passed
    assert NotebookStep("beside", "no job to break -> wait") in run.steps


# A lesson that ends with the lab down


def ends() -> Lesson:
    return lesson(good, checks_after_down=(is_down,))


def test_a_lesson_that_takes_the_lab_down_checks_before_and_after(world: LessonLab, run: Runs) -> None:
    world.notebook(argv(ends()), *EVENTS)
    result = run(ends())
    assert [check.name for check in result.checks] == ["good", "down"]
    assert result.passed
    assert not world.runtime.status().up
    assert result.document.versions.ray == "2.60.0", "known from before"


def test_a_lab_stays_up_while_what_is_checked_before_has_not_passed(world: LessonLab, run: Runs) -> None:
    item = lesson(bad, checks_after_down=(is_down,))
    world.notebook(argv(item), *EVENTS)
    assert not run(item).passed
    assert world.runtime.status().up


def test_by_hand_the_lesson_is_checked_before_and_after_down(world: LessonLab) -> None:
    first = check_lesson(world.lab, ends(), clock=world.clock)
    assert [check.outcome for check in first.checks] == ["passed", "failed"]
    world.runtime.down()
    assert check_lesson(world.lab, ends(), clock=world.clock).passed
    assert check_lesson(world.lab, ends(), clock=world.clock).passed, "twice in a row"


def test_after_down_the_jobs_of_the_last_look_are_named(world: LessonLab) -> None:
    world.jobs.add(job(name(2, "plain")))
    first = check_lesson(world.lab, ends(), clock=world.clock)
    world.runtime.down()
    assert check_lesson(world.lab, ends(), clock=world.clock).document.jobs == first.document.jobs
    assert first.document.jobs[0].started_at == AT + 10


def test_a_lab_that_is_down_was_not_looked_at_before(world: LessonLab) -> None:
    world.runtime.down()
    with pytest.raises(LabDownError, match="look at it"):
        check_lesson(world.lab, ends())
    with pytest.raises(LabDownError, match="lesson 2"):
        check_lesson(world.lab, lesson())


def test_a_real_lesson_of_a_student_who_did_nothing_is_not_passed(world: LessonLab) -> None:
    for number in (1, 2, 3, 9):
        assert not check_lesson(world.lab, find_lesson(number), clock=world.clock).passed


def test_results_of_notebooks_count_too_while_the_lab_is_up(world: LessonLab) -> None:
    done = Session(3, world.lab, say=world.said.append, clock=world.clock).check()
    assert results(world.lab) == {3: done.document}
    world.runtime.down()
    assert results(world.lab) == {3: done.document}, "seen while the lab was up"


def by_hand(world: LessonLab, number: int = 3) -> LessonResult:
    """What a notebook checks, and leaves in the store alone."""
    begun = Session(number, world.lab, say=world.said.append, clock=world.clock)
    return begun.check()


def test_a_check_of_one_lesson_copies_what_notebooks_left_of_the_others(world: LessonLab) -> None:
    done = by_hand(world)
    check_lesson(world.lab, lesson(), clock=world.clock)
    world.runtime.down()
    assert results(world.lab)[3] == done.document


def broken() -> LabStatus:
    raise ValueError("half a state")


def test_before_a_lab_goes_down_its_results_are_copied_and_a_silent_store_is_told(world: LessonLab) -> None:
    done = by_hand(world)
    world.store.failure = StoreError("the object store cannot be reached")
    assert collect(world.lab) == "the object store cannot be reached"
    half = copy(world.lab)
    half.status = broken  # type: ignore[method-assign]
    assert collect(half) == "half a state"
    world.store.failure = None
    assert collect(world.lab) == ""
    assert collect(world.lab) == "", "twice in a row"
    world.runtime.down()
    assert collect(world.lab) == "lab raylab is down"
    assert results(world.lab) == {3: done.document}


def test_a_result_on_this_machine_is_not_replaced_by_an_older_one_of_the_store(world: LessonLab) -> None:
    by_hand(world, 2)
    world.clock.sleep(60)
    newer = check_lesson(world.lab, lesson(bad), clock=world.clock)
    keep_in_store(world.store, LessonResult.of(newer.document, newer.checks, AT))
    assert results(world.lab) == {2: newer.document}
