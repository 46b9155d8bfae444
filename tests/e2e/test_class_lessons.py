"""Lessons in a class, each done by a student in her own server, faults included."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.ext.course.lessons.catalogue import find_lesson
from lab.ext.course.lessons.results import in_store
from lab.store.below import StoreBelow
from tests.e2e.browser import Browser
from tests.e2e.harness import PATIENCE, UP, Bench
from tests.waiting import eventually

pytest.importorskip("jupyterhub", reason="needs the group `hub`: JupyterHub is not installed")

ALONE = (6, 8)
BREAKS = 11
CHECKPOINTS = 3
"""Of the job of lesson 11, before its notebook asks for the fault."""


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
        run = f"python -m lab.ext.course.lessons.execute notebooks/{lesson.notebook} --lesson {number}"
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
def test_a_gpu_falls_sick_as_she_types_what_the_notebook_asks_for(room: Room) -> None:
    said = room.begin(BREAKS)
    lab = room.bench.lab

    def trained() -> str:
        assert '"failed"' not in said.read_text(), said.read_text()
        (job,) = (one.submission_id for one in lab.jobs.list() if "-sick-" in one.submission_id)
        return job if len(lab.history(job).runs[0].checkpoints) >= CHECKPOINTS else ""

    job = eventually(trained, PATIENCE, "three checkpoints are stored")
    code, printed = room.ann.type(f"labctl fault-inject --fault gpu-sick --job {job}")
    assert (code, "training went on from its checkpoint" in printed) == (0, True), printed
    room.end(BREAKS, said)


@pytest.mark.rare
def test_what_she_hands_in_is_what_the_lab_knows(room: Room, tmp_path: Path) -> None:
    code, printed = room.ann.type("labctl lesson report --student ann --output ~/ann.json")
    assert code == 0, printed
    (tmp_path / "ann.json").write_text((room.home / "ann.json").read_text())
    room.bench.labctl("class", "collect", str(tmp_path))
    standings = room.bench.labctl("class", "progress", "--json").document["people"]["ann"]
    assert {one["lesson"]: one["state"] for one in standings} == dict.fromkeys((*ALONE, BREAKS), "passed")
