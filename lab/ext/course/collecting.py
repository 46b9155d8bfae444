"""class collect: the lesson reports of a class, checked against its lab."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lab.cli import values
from lab.cli.context import App, LabCommand, pass_app
from lab.errors import LessonError
from lab.people.progress import CLAIMED, FAILED, PASSED

if TYPE_CHECKING:
    from lab.people.progress import Standing

STATES = (PASSED, CLAIMED, FAILED)


@click.command(cls=LabCommand)
@click.argument("folder", type=values.Place(), metavar="DIR", help="Folder with *.json.")
@pass_app
def collect(app: App, folder: Path) -> None:
    """Check the lesson reports of a folder against the lab, and keep what each person has passed.

    A report that was edited, or that the lab contradicts, is refused with lines and reasons; then it exits
    with 19.
    """
    from lab.ext.course.lessons.handed_in import collect as collected
    from lab.ext.course.lessons.handed_in import merged
    from lab.flows.people import Classroom
    from lab.people.progress import read_progress, write_progress

    registry = Classroom(app.open(), clock=app.clock, say=app.out.note).registry
    people, place = registry.people(), registry.path.parent
    handed = collected(app.open(), folder, people)
    write_progress(place, merged(read_progress(place), handed, people, time.time()))
    if not app.out.as_json({"reports": handed}):
        for one in handed:
            for problem in one.problems:
                app.out.line(f"{one.file}, {problem}")
            if not one.problems:
                app.out.line(f"{one.file}: {one.person}: {_lessons(one.lessons)}")
    if refused := [one.file for one in handed if one.problems]:
        app.fail(LessonError(f"refused: {', '.join(refused)}", "ask for these files again, unchanged"))


def _lessons(standings: Sequence[Standing]) -> str:
    """`passed: 2, 4; claimed: 1`."""
    numbers: dict[str, list[str]] = {}
    for one in standings:
        numbers.setdefault(one.state, []).append(str(one.lesson))
    return "; ".join(f"{state}: {', '.join(numbers[state])}" for state in STATES if state in numbers)


COMMANDS = (collect,)
