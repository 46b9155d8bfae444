"""The lessons, done as a class does them: `labctl lesson run N` on a lab that the first run starts.

`LessonTests` holds for every runtime; a test module of each gives it its lab and says which lessons.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from lab.errors import LabDownError, LessonError
from lab.ext.course.lessons.catalogue import find_lesson, numbers
from tests.e2e.harness import ROOT, Shell

BOOT_SECONDS = 300.0
"""Patience for an `up` and for what else surrounds a notebook."""


class LessonTests:
    """What lessons must do. Tests run in this order; subclasses give `shell`: a lab that is not up yet."""

    LESSONS: ClassVar[Sequence[int]] = numbers()
    LONG: ClassVar[Sequence[int]] = ()
    RARE: ClassVar[Sequence[int]] = ()
    """Those of them with these marks."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test for each lesson."""
        if "number" in metafunc.fixturenames:
            marks = dict.fromkeys(self.LONG, pytest.mark.long) | dict.fromkeys(self.RARE, pytest.mark.rare)
            tests = [pytest.param(number, marks=marks.get(number, ())) for number in self.LESSONS]
            metafunc.parametrize("number", tests)

    def test_a_lab_that_is_down_has_nothing_to_check(self, shell: Shell) -> None:
        shell.labctl("lesson", "check", "5", code=LabDownError.exit_code)

    def test_a_lesson_passes_after_it_was_done_and_not_before(self, shell: Shell, number: int) -> None:
        lesson = find_lesson(number)
        if shell.lab.status().up:
            before = shell.labctl("lesson", "check", str(number), "--json", code=LessonError.exit_code)
            assert before.document["passed"] is False
        ended = shell.labctl(
            "lesson", "run", str(number), "--json", timeout=lesson.seconds + BOOT_SECONDS, code=None
        )
        assert ended.code == 0, ended
        assert ended.document["lesson"] == number
        assert [check["name"] for check in ended.document["checks"] if not check["passed"]] == []
        if not lesson.checks_after_down:
            assert shell.healthy()
            assert [job.submission_id for job in shell.lab.jobs.list() if not job.final] == []

    def test_the_report_holds_every_lesson_that_was_done(
        self, shell: Shell, tmp_path: Path, request: pytest.FixtureRequest
    ) -> None:
        mine = (item for item in request.session.items if getattr(item, "cls", None) is type(self))
        numbers = {
            getattr(item, "callspec", SimpleNamespace(params={})).params.get("number") for item in mine
        }
        done = [number for number in self.LESSONS if number in numbers]
        file = tmp_path / "ada.json"
        shell.labctl("lesson", "report", "--student", "Ada Lovelace", "--output", str(file))
        report = json.loads(file.read_text())
        assert report["passed"] == done
        verification = shell.labctl("lesson", "report", "--verify", str(file), "--json").document
        assert verification["reports"][0]["problems"] == []
        kept = {
            lesson["number"]: lesson
            for lesson in shell.labctl("lesson", "list", "--json").document["lessons"]
        }
        assert all(kept[number]["passed"] for number in done)

    def test_the_notebooks_of_the_checkout_stay_as_they_are(self) -> None:
        for number in self.LESSONS:
            notebook = json.loads((ROOT / "workspace/notebooks" / find_lesson(number).notebook).read_text())
            assert not any(cell.get("outputs") for cell in notebook["cells"])
