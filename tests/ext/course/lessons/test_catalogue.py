"""The lessons that there are, and that their notebooks begin and end as lessons do."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import pytest

from lab.errors import NotFoundError
from lab.ext.course.lessons.catalogue import find_lesson, lessons, numbers
from lab.ext.course.lessons.model import Lesson
from tests.conftest import ROOT

EVERY = pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: str(lesson.number))


def cells(lesson: Lesson, kind: str) -> list[str]:
    document: dict[str, Any] = json.loads((ROOT / "workspace" / "notebooks" / lesson.notebook).read_text())
    return ["".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == kind]


def test_lessons_are_found_by_number_in_order() -> None:
    assert [lesson.number for lesson in lessons()] == list(numbers()) == sorted(numbers())
    assert {1, 2, 3, 9} <= set(numbers())
    assert find_lesson(3).name == "an-infeasible-job"


def test_an_unknown_lesson_names_those_there_are() -> None:
    with pytest.raises(NotFoundError, match="no lesson 42") as caught:
        find_lesson(42)
    assert "1, 2, 3" in caught.value.hint


@EVERY
def test_a_lesson_is_called_as_its_notebook_is(lesson: Lesson) -> None:
    assert lesson.notebook == f"{lesson.number:02d}-{lesson.name}.ipynb"
    assert lesson.checks
    assert set(lesson.needs) <= {"food11"}


@EVERY
def test_a_notebook_begins_its_own_lesson_and_checks_it(lesson: Lesson) -> None:
    code = cells(lesson, "code")
    assert re.search(rf"^session = Session\({lesson.number}\)", code[0], re.MULTILINE)
    assert any("session.check()" in cell for cell in code[-2:])


@EVERY
def test_a_notebook_says_what_is_learned_what_to_observe_and_asks_questions(lesson: Lesson) -> None:
    text = "\n".join(cells(lesson, "markdown"))
    assert text.startswith(f"# {lesson.number}. {lesson.title}\n")
    assert "minutes" in cells(lesson, "markdown")[0]
    assert "\n## Observe\n" in text
    assert len(re.findall(r"^\d\. .*\?", text.partition("Questions")[2], re.MULTILINE)) >= 2


@EVERY
def test_each_question_has_an_answer_cell(lesson: Lesson) -> None:
    asked = re.findall(
        r"^(\d)\. ", "\n".join(cells(lesson, "markdown")).partition("Questions")[2], re.MULTILINE
    )
    answered = [
        re.fullmatch(r'answer = """\n\n"""\nsession.answer\((\d), answer\)', cell)
        for cell in cells(lesson, "code")
    ]
    assert [match[1] for match in answered if match] == asked


@EVERY
def test_no_wait_of_a_notebook_says_only_that_time_is_up(lesson: Lesson) -> None:
    """`session.until` says when it is the head that is down."""
    assert "TimeoutError" not in "\n".join(cells(lesson, "code"))


@EVERY
def test_the_teachers_page_has_the_lesson_and_answers_its_questions(lesson: Lesson) -> None:
    page = (ROOT / "docs" / "lessons.md").read_text()
    section = page.partition(f"\n## {lesson.number}. {lesson.title}\n")[2].partition("\n## ")[0]
    assert "**Shows**" in section
    questions = re.findall(
        r"^\d\. ", "\n".join(cells(lesson, "markdown")).partition("Questions")[2], re.MULTILINE
    )
    assert len(re.findall(r"^\d\. \*", section, re.MULTILINE)) >= len(questions)


def python(lesson: Lesson) -> ast.Module:
    """The code of a notebook without its shell commands."""
    lines = "\n".join(cells(lesson, "code")).splitlines()
    return ast.parse("\n".join("pass" if line.startswith("!") else line for line in lines))


@EVERY
def test_no_cell_waits_for_ever(lesson: Lesson) -> None:
    for node in ast.walk(python(lesson)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "ray.get":
            assert "timeout" in [keyword.arg for keyword in node.keywords], ast.unparse(node)
        if isinstance(node, ast.While):
            ends = any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
            assert ends or "time.time() <" in ast.unparse(node.test), ast.unparse(node)


@EVERY
def test_who_submits_a_job_reads_that_an_id_can_be_used_once(lesson: Lesson) -> None:
    if "job submit" in "\n".join(cells(lesson, "code")):
        text = "\n".join(cells(lesson, "markdown"))
        assert "An id can be used once. To submit again, run the notebook from its first cell." in text


@EVERY
def test_a_training_takes_so_few_pictures_that_the_whole_food_11_fits_into_the_lesson(lesson: Lesson) -> None:
    if lesson.number == 3:  # its job never runs
        return
    for line in "\n".join(cells(lesson, "code")).splitlines():
        if re.search(r"python (train|tune)_\w+\.py", line):
            assert re.search(r"--pictures \d+", line), line


def test_the_task_of_lesson_1_is_sent_to_each_worker() -> None:
    assert "NodeAffinitySchedulingStrategy(node.node_id, soft=False)" in "\n".join(
        cells(find_lesson(1), "code")
    )


def test_the_exercise_of_lesson_8_has_an_id_of_its_own_and_comes_after_the_self_check() -> None:
    exercise = cells(find_lesson(8), "markdown")[-1]
    assert 'again = session.new_job("tune-broken")' in exercise
    assert "--submission-id {again}" in exercise
    assert "session.check()" in cells(find_lesson(8), "code")[-1]


def test_the_pages_for_teachers_name_no_setting_that_has_no_effect() -> None:
    assert "RAYLAB_BREAK" not in (ROOT / "docs" / "lessons.md").read_text()
