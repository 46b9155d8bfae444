"""Executes the notebook of a lesson in the lab's JupyterLab, from the host, and tells its cells."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lab.errors import LabError, LessonError
from lab.ext.course.lessons.model import Lesson
from lab.host.interrupts import held_back
from lab.host.reading import parse_json
from lab.runtime.base import NodeControl
from lab.services import JUPYTER
from lab.topology import BUCKET

GRACE_SECONDS = 60.0
"""Time that the process may take beyond the deadline of its notebook."""

STOP_SECONDS = 30.0


@dataclass(frozen=True)
class NotebookStep:
    """Something that happened in a run. `kind`: `note`, `cell` (one has ended), `beside`."""

    kind: str
    text: str
    number: int = 0
    """Number of the cell, from 1."""
    of: int = 0
    seconds: float | None = None
    output: str = ""


OnStep = Callable[[NotebookStep], None]


def execute_notebook(lab: NodeControl, lesson: Lesson, on_step: OnStep) -> None:
    """Execute the lesson's notebook in the lab's JupyterLab, telling each cell.

    Interrupted, it ends the kernel. Raises LessonError when a cell fails, LabDownError when Jupyter does not
    run.
    """
    reader = _Reader(on_step)
    command = ("python", "-m", "lab.ext.course.lessons.execute")
    argv = (
        *command,
        f"notebooks/{lesson.notebook}",
        *("--lesson", str(lesson.number)),
        *("--seconds", f"{lesson.seconds:g}"),
    )
    try:
        ended = lab.execute(JUPYTER, argv, timeout=lesson.seconds + GRACE_SECONDS, on_line=reader.read)
    except BaseException:
        if reader.pid is not None:
            with held_back(), contextlib.suppress(LabError):
                lab.execute(JUPYTER, (*command, "--stop", str(reader.pid)), timeout=STOP_SECONDS)
        raise
    if reader.failure is not None:
        number, of, why = reader.failure
        where = f"cell {number} of {of} of {lesson.notebook}" if number else lesson.notebook
        kept = f"what it printed is in s3://{BUCKET}/{reader.stored}" if reader.stored else ""
        raise LessonError(f"{where} failed: {why}", kept or "look at the workspace that Jupyter shows")
    if ended.exit_code:
        last = "\n".join(reader.others[-10:]) or "it printed nothing"
        raise LessonError(
            f"{lesson.notebook} could not be executed (exit code {ended.exit_code}): {last}",
            f"open it in JupyterLab: `labctl status --addresses`; look at `labctl logs {JUPYTER}`",
        )


class _Reader:
    """Turns the lines of lab.ext.course.lessons.execute into steps."""

    def __init__(self, on_step: OnStep) -> None:
        self.pid: int | None = None
        self.failure: tuple[int, int, str] | None = None
        self.stored = ""
        self.others: list[str] = []
        """Lines that are no events."""
        self._on_step = on_step

    def read(self, line: str) -> None:
        event = _event(line)
        match event.get("event"):
            case "started":
                self.pid = int(event["pid"])
            case "cell":
                fields = (event[key] for key in ("line", "number", "of", "seconds", "output"))
                self._on_step(NotebookStep("cell", *fields))
            case "failed":
                self.failure = event["number"], event["of"], event["error"]
            case "stored":
                self.stored = event["key"]
                if not self.stored:
                    self._on_step(
                        NotebookStep("note", f"the executed notebook is not kept: {event['error']}")
                    )
            case _:
                self.others.append(line)


def _event(line: str) -> dict[str, Any]:
    try:
        event = parse_json(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
