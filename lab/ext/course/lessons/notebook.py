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
    events: dict[str, dict[str, Any]] = {}
    others: list[str] = []

    def read(line: str) -> None:
        event = _event(line)
        kind = event.get("event", "")
        events[kind] = event
        if not kind:
            others.append(line)
        elif kind == "cell":
            on_step(
                NotebookStep(*(event[key] for key in ("event", "line", "number", "of", "seconds", "output")))
            )
        elif kind == "stored" and not event["key"]:
            on_step(NotebookStep("note", f"the executed notebook is not kept: {event['error']}"))

    command = ("python", "-m", "lab.ext.course.lessons.execute")
    options = ("--lesson", str(lesson.number), "--seconds", f"{lesson.seconds:g}")
    argv = (*command, f"notebooks/{lesson.notebook}", *options)
    try:
        ended = lab.execute(JUPYTER, argv, timeout=lesson.seconds + GRACE_SECONDS, on_line=read)
    except BaseException:
        if "started" in events:
            with held_back(), contextlib.suppress(LabError):
                pid = str(events["started"]["pid"])
                lab.execute(JUPYTER, (*command, "--stop", pid), timeout=STOP_SECONDS)
        raise
    if failure := events.get("failed"):
        where = f"cell {failure['number']} of {failure['of']} of " if failure["number"] else ""
        key = events.get("stored", {}).get("key")
        kept = (
            f"what it printed is in s3://{BUCKET}/{key}"
            if key
            else "look at the workspace that Jupyter shows"
        )
        raise LessonError(f"{where}{lesson.notebook} failed: {failure['error']}", kept)
    if ended.exit_code:
        last = "\n".join(others[-10:]) or "it printed nothing"
        raise LessonError(
            f"{lesson.notebook} could not be executed (exit code {ended.exit_code}): {last}",
            f"open it in JupyterLab: `labctl status --addresses`; look at `labctl logs {JUPYTER}`",
        )


def _event(line: str) -> dict[str, Any]:
    """What lab.ext.course.lessons.execute tells in a line; nothing for a line of somebody else's."""
    try:
        event = parse_json(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
