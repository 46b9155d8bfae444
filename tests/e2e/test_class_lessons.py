"""Lessons in a class, each done by a student in her own server; a teacher breaks what only he may break."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.flows.lessons.catalogue import find_lesson
from lab.flows.lessons.results import in_store
from lab.store.below import StoreBelow
from tests.e2e.browser import Browser
from tests.e2e.harness import PATIENCE, UP, Bench
from tests.waiting import eventually

pytest.importorskip("jupyterhub", reason="needs the group `hub`: JupyterHub is not installed")

ALONE = (6, 8)
BROKEN_BY_A_TEACHER = 11
TYPED = re.compile(r"^labctl (fault-inject .+)", re.MULTILINE)
"""What a notebook asks the teacher to type."""


class Room:
    """A lab with ann at her JupyterLab."""

    def __init__(self, bench: Bench) -> None:
        """Start the lab, and sign ann in."""
        self.bench = bench
        bench.labctl(*UP, "--class", "--hub", timeout=2 * PATIENCE)
        bench.labctl("lesson", "data", "food11", "--synthetic", "20", timeout=2 * PATIENCE)
        (ann,) = bench.labctl("class", "add", "ann", "--json").document["people"]
        self.ann = Browser(bench.lab.endpoints().hub, "ann")
        assert self.ann.sign_in("ann", ann["token"]).ok
        self.ann.open_lab()
        self.store = StoreBelow(bench.lab.store, "people/ann")
        self.home = bench.folder / "hub" / "homes" / "ann"

    def begin(self, number: int) -> Path:
        """Execute a notebook in her terminal, which does not wait for it; the file of what it prints."""
        lesson, said = find_lesson(number), self.home / f"lesson-{number}.jsonl"
        run = f"python -m lab.flows.lessons.execute notebooks/{lesson.notebook} --lesson {number}"
        line = f"cd ~/work && (nohup {run} --seconds {lesson.seconds:g} > {said} 2>&1 &)"
        assert self.ann.type(line)[0] == 0
        return said

    def end(self, number: int, said: Path) -> None:
        """Wait until the notebook has checked itself: all has passed, and so says `lesson check`."""
        lesson = find_lesson(number)

        def over() -> bool:
            return '"stored"' in said.read_text()

        eventually(over, lesson.seconds, f"the notebook of lesson {number} ends")
        assert '"failed"' not in said.read_text(), said.read_text()
        checks = in_store(self.store)[number].checks
        assert [(check.name, check.detail) for check in checks if not check.passed] == []
        code, printed = self.ann.type(f"labctl lesson check {number}")
        assert code == 0, printed


@pytest.fixture(scope="module")
def room(make_bench: Callable[[], Bench]) -> Room:
    return Room(make_bench())


@pytest.mark.rare
@pytest.mark.parametrize("number", ALONE)
def test_a_student_does_it_alone(room: Room, number: int) -> None:
    room.end(number, room.begin(number))


@pytest.mark.rare
def test_a_teacher_types_what_the_notebook_asks_for(room: Room) -> None:
    said = room.begin(BROKEN_BY_A_TEACHER)

    def asked() -> str:
        assert '"failed"' not in said.read_text(), said.read_text()
        (command,) = TYPED.findall(json.dumps(said.read_text()).replace("\\\\n", "\n"))
        return str(command)

    command = eventually(asked, PATIENCE, "the notebook asks for a fault")
    room.bench.labctl(*command.split(), timeout=2 * PATIENCE)
    room.end(BROKEN_BY_A_TEACHER, said)
