"""lesson list, run, check, report."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.api.base import parse
from lab.errors import LabDownError, LessonError, StoreError
from lab.ext.course.documents import ReportDocument, signed
from lab.ext.course.lessons import lessons
from lab.ext.course.lessons.model import Lesson, LessonResult
from lab.ext.course.lessons.results import dump, keep_in_store, keep_on_host, on_host
from lab.ext.course.lessons.run import NotebookStep, OnStep, place
from lab.lab import Lab
from lab.runtime.base import OnProgress
from lab.topology import LabSpec
from tests.ext.course.lessons.test_results import result
from tests.unit.cli.fakes import PLAN, Labctl

STEPS = (
    NotebookStep("note", "drew 330 pictures"),
    NotebookStep("cell", "session = Session(2)", 1, 2, 0.6, "Lesson 2: A job (lab raylab)\n"),
    NotebookStep("beside", "kill ray-worker-0"),
    NotebookStep("cell", f"!ray job submit {'x' * 200}", 2, 2, 72.0),
)


RUN, CHECK = "lab.ext.course.lessons.run.run_lesson", "lab.ext.course.lessons.run.check_lesson"


def kept(*results: LessonResult) -> None:
    """Let these be the results on this machine."""
    for kept_result in results:
        keep_on_host(place("raylab"), kept_result.document)


@pytest.fixture
def done(labctl: Labctl) -> Any:
    """Lessons that are passed."""
    return ends_with(labctl)


def ends_with(labctl: Labctl, *results: LessonResult) -> Any:
    """Let these lessons end so, and all others be passed."""
    outcomes = {result.document.lesson: result for result in results}

    def run_lesson(
        lab: Lab,
        lesson: Lesson,
        spec: Callable[[], LabSpec],
        *,
        get_data: object,
        on_step: OnStep,
        on_progress: OnProgress,
    ) -> LessonResult:
        if not lab.status().up:
            lab.up(spec(), on_progress)
        for step in STEPS:
            on_step(step)
        return check_lesson(lab, lesson)

    def check_lesson(lab: Lab, lesson: Lesson) -> LessonResult:
        return outcomes.get(lesson.number, other(lesson))

    def other(lesson: Lesson) -> LessonResult:
        done = result()
        frame = replace(done.document, lesson=lesson.number, title=lesson.title)
        return LessonResult.of(frame, done.checks, done.document.at)

    labctl.stub(CHECK, check_lesson)
    return labctl.stub(RUN, run_lesson)


def numbers(stub: Any) -> list[int]:
    """The lessons that were asked for."""
    return [call.args[1].number for call in stub.call_args_list]


def test_the_list_says_which_lessons_are_passed(labctl: Labctl) -> None:
    kept(result(), result(3, good=False))
    lines = labctl.ok("lesson", "list").splitlines()
    assert lines[0].split() == ["NUMBER", "LESSON", "TAKES", "CHECKED", "NOTEBOOK"]
    rows = {line.split()[0]: line for line in lines[1:]}
    assert "never" in rows["1"]
    assert " passed (20" in rows["2"]
    assert "not passed yet (20" in rows["3"]
    assert "03-an-infeasible-job.ipynb" in rows["3"]


def test_the_list_as_json(labctl: Labctl) -> None:
    kept(result())
    listed = {lesson["number"]: lesson for lesson in labctl.json("lesson", "list")["lessons"]}
    assert listed[2] == {
        "number": 2,
        "name": "a-job",
        "title": "A job",
        "notebook": "02-a-job.ipynb",
        "minutes": 15,
        "needs": ["food11"],
        "passed": True,
        "at": result().document.at,
    }
    assert listed[1]["passed"] is listed[1]["at"] is None


def test_a_run_says_a_line_for_each_cell_and_shows_the_result(labctl: Labctl, done: Any) -> None:
    shown = labctl("lesson", "run", "2")
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[0].startswith("Lesson 2, A job: passed (3 of 3 checks)")
    lines = shown.stderr.splitlines()
    assert lines[:2] == ["drew 330 pictures", "cell  1/2       0.6 s  session = Session(2)"]
    assert lines[2].strip() == "kill ray-worker-0"
    assert lines[3].startswith("cell  2/2  1 min 12 s  !ray job submit xxx")
    assert lines[3].endswith("...")
    assert len(lines) == 4
    assert numbers(done) == [2]


@pytest.mark.usefixtures("done")
def test_what_cells_print_is_shown_when_asked(labctl: Labctl) -> None:
    assert "Lesson 2: A job (lab raylab)" in labctl("lesson", "run", "2", "--verbose").stderr
    assert "cell" not in labctl("lesson", "run", "2", "--quiet").stderr


@pytest.mark.usefixtures("done")
def test_a_lab_that_is_down_is_started_with_gpus_of_this_machine_or_simulated_ones(labctl: Labctl) -> None:
    labctl.down()
    assert labctl("lesson", "run", "1").exit_code == 0
    assert labctl.runtime.spec() == LabSpec(gpu=PLAN)


def test_a_lesson_that_is_not_passed_exits_with_19_and_says_what_to_do(labctl: Labctl) -> None:
    ends_with(labctl, result(good=False))
    for command in ("run", "check"):
        shown = labctl("lesson", command, "2")
        assert shown.exit_code == LessonError.exit_code == 19
        assert "lesson 2 is not passed yet: second" in shown.stderr
        assert "-> do it" in shown.stderr
        assert labctl.json("lesson", command, "2", code=19) == result(good=False).to_json()


def test_all_lessons_run_in_order_until_one_is_not_passed(labctl: Labctl) -> None:
    ends_with(labctl)
    document = labctl.json("lesson", "run", "--all")
    assert [result["lesson"] for result in document["results"]] == [lesson.number for lesson in lessons()]
    run = ends_with(labctl, result(3, good=False))
    run.reset_mock()
    assert labctl("lesson", "run", "--all").exit_code == 19
    assert numbers(run) == [0, 1, 2, 3]


@pytest.mark.parametrize("arguments", [(), ("2", "--all"), ("100",), ("two",), ("-1",)])
def test_a_run_needs_one_lesson_or_all(labctl: Labctl, arguments: tuple[str, ...]) -> None:
    assert labctl("lesson", "run", *arguments).exit_code == 2


@pytest.mark.parametrize("command", ["run", "check"])
def test_an_unknown_lesson_is_refused(labctl: Labctl, command: str) -> None:
    shown = labctl("lesson", command, "42")
    assert shown.exit_code == 3
    assert "there is no lesson 42" in shown.stderr
    assert labctl.opened == []


def test_errors_of_the_flow_have_their_own_codes(labctl: Labctl) -> None:
    labctl.stub(RUN, LabDownError("jupyter is not running", "`labctl restart jupyter` starts it"))
    assert labctl("lesson", "run", "2").exit_code == 5
    labctl.stub(RUN, KeyboardInterrupt())
    assert labctl("lesson", "run", "2").exit_code == 130


def test_a_report_is_written_and_verified(labctl: Labctl, tmp_path: Path) -> None:
    kept(result())
    file = tmp_path / "ada.json"
    said = labctl.ok("lesson", "report", "--student", "Ada", "--output", str(file))
    assert said.startswith(f"{file}: 1 lesson; passed: 2; missing: 0, 1, 3")
    written = json.loads(file.read_text())
    assert labctl.json("lesson", "report", "--student", "Ada")["results"] == written["results"]
    shown = labctl.ok("lesson", "report", "--verify", str(file))
    assert shown.startswith(f"{file}: Ada; passed: 2; missing: 0, 1, 3")
    document = labctl.json("lesson", "report", "--verify", str(file))
    assert document["copies"] == []
    assert document["reports"][0] == {
        "file": str(file),
        "student": "Ada",
        "passed": [2],
        "missing": written["missing"],
        "problems": [],
    }


def test_reports_that_were_edited_or_copied_exit_with_19(labctl: Labctl, tmp_path: Path) -> None:
    kept(result(jobs=("j-1", "j-2")))
    ada, charles = tmp_path / "ada.json", tmp_path / "charles.json"
    for name, file in (("Ada", ada), ("Charles", charles)):
        labctl.ok("lesson", "report", "--student", name, "--output", str(file))
    shown = labctl("lesson", "report", "--verify", str(ada), "--verify", str(charles))
    assert shown.exit_code == 19
    assert f"copied: lesson 2 in {charles} has the jobs of Ada's in {ada}" in shown.stdout
    ada.write_text(ada.read_text().replace("1 of 1", "9 of 9"))
    shown = labctl("lesson", "report", "--verify", str(ada))
    assert shown.exit_code == 19
    assert "does not fit: the result of lesson 2 was changed" in shown.stdout
    document = labctl.json("lesson", "report", "--verify", str(ada), code=19)
    assert document["reports"][0]["student"] is None
    assert len(document["reports"][0]["problems"]) == 2


def test_a_report_needs_a_student_and_results_and_a_file_that_can_be_written(
    labctl: Labctl, tmp_path: Path
) -> None:
    assert labctl("lesson", "report").exit_code == 2
    assert labctl("lesson", "report", "--student", "Ada").exit_code == 11
    kept(result())
    nowhere = tmp_path / "none" / "ada.json"
    shown = labctl("lesson", "report", "--student", "Ada", "--output", str(nowhere))
    assert (shown.exit_code, str(nowhere) in shown.stderr) == (12, True)
    assert labctl("lesson", "report", "--verify", str(nowhere)).exit_code == 3
    assert labctl("lesson", "report", "--verify", str(nowhere), "--student", "Ada").exit_code == 2


@pytest.mark.parametrize("content", ["hello", "[" * 100_000, '{"x": "\\ud800"}', "deep"])
def test_a_file_that_is_no_report_is_told_and_the_others_are_still_looked_at(
    labctl: Labctl, tmp_path: Path, content: str
) -> None:
    kept(result())
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    labctl.ok("lesson", "report", "--student", "Ada", "--output", str(good))
    if content == "deep":
        nested = '{"x": ' * 5000 + "1" + "}" * 5000
        deep = f'"measured": {nested}'
        content = good.read_text().replace('"measured": {\n    "seconds": 12.5\n   }', deep)
        assert deep in content
    bad.write_text(content)
    shown = labctl("lesson", "report", "--verify", str(bad), "--verify", str(good))
    assert shown.exit_code == 19
    assert f"{bad}:\n  does not fit: " in shown.stdout
    assert f"{good}: Ada; passed: 2" in shown.stdout
    document = labctl.json("lesson", "report", "--verify", str(bad), "--verify", str(good), code=19)
    assert [bool(report["problems"]) for report in document["reports"]] == [True, False]


def test_a_name_in_a_report_cannot_forge_what_is_printed(labctl: Labctl, tmp_path: Path) -> None:
    kept(result())
    file = tmp_path / "ada.json"
    labctl.ok("lesson", "report", "--student", "Ada", "--output", str(file))
    document = parse(ReportDocument, json.loads(file.read_text()), "the report")
    forged = "Ada\n/x/charles.json: Charles; passed: 1, 2\x1b[2J"
    results = tuple(signed(replace(result, student=forged)) for result in document.results)
    file.write_text(dump(signed(replace(document, student=forged, results=results))))
    shown = labctl("lesson", "report", "--verify", str(file))
    assert shown.exit_code == 19
    assert "\x1b" not in shown.stdout
    assert not any(line.startswith("/x/charles.json") for line in shown.stdout.splitlines())
    assert "the student's name is not one" in shown.stdout


def test_a_report_says_when_the_store_could_not_be_asked(labctl: Labctl) -> None:
    kept(result())
    assert labctl("lesson", "report", "--student", "Ada").stderr == ""
    labctl.down()
    shown = labctl("lesson", "report", "--student", "Ada")
    assert shown.exit_code == 0
    assert "lab raylab is down, so its store was not asked" in shown.stderr


def test_down_copies_the_results_of_notebooks_first(labctl: Labctl) -> None:
    keep_in_store(labctl.store, result())
    assert labctl("down").exit_code == 0
    assert on_host(place("raylab")) == {2: result().document}
    assert "results" not in labctl("down").stderr, "a lab that is down already has nothing to copy"


def test_down_says_when_it_cannot_copy_the_results_of_notebooks(labctl: Labctl) -> None:
    labctl.store.failure = StoreError("the object store cannot be reached")
    shown = labctl("down")
    assert shown.exit_code == 0
    assert "only the store holds stay there: the object store cannot be reached" in shown.stderr
    assert labctl.changes() == ["down"]


def test_a_notebook_is_put_back(labctl: Labctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYLAB_WORKSPACE", str(tmp_path))
    labctl.down()
    notebook = tmp_path / "notebooks" / "02-a-job.ipynb"
    assert labctl.ok("lesson", "restore", "2") == f"{notebook} is restored\n"
    assert '"# 2. A job' in notebook.read_text()
    notebook.write_text("mine")
    assert "; yours is now" in labctl.ok("lesson", "restore", "2")
    notebook.write_text("mine, too")
    document = labctl.json("lesson", "restore", "2")
    assert document == {"notebook": str(notebook), "kept": str(tmp_path / "notebooks" / "02-a-job.2.ipynb")}


def test_a_teacher_can_read_the_answers(labctl: Labctl, tmp_path: Path) -> None:
    done = result()
    answered = replace(done.document, answers={"1": "Nothing.\nIt waits."})
    kept(LessonResult.of(answered, done.checks, done.document.at))
    file = tmp_path / "ada.json"
    labctl.ok("lesson", "report", "--student", "Ada", "--output", str(file))
    line = "lesson 2, question 1: Nothing. It waits."
    assert line in labctl.ok("lesson", "report", "--verify", str(file), "--verbose")
    assert line not in labctl.ok("lesson", "report", "--verify", str(file))
    file.write_text(file.read_text().replace("It waits", "It runs"))
    assert labctl("lesson", "report", "--verify", str(file)).exit_code == 19
