"""The flow of `labctl lesson run` and `check`: a lab, its data, the notebook, and what the checks say."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.checks.model import Check
from lab.cluster import places
from lab.errors import LabDownError, LabError, LessonError, RefusedError
from lab.home import home
from lab.lessons.evidence import gather
from lab.lessons.model import Beside, Evidence, JobRecord, Lesson, LessonResult, NotebookOverError
from lab.lessons.results import Document, ask, in_store, judge, keep_in_store, keep_on_host, newest, on_host
from lab.runtime.base import OnProgress, Runtime, ignore_progress
from lab.runtime.interrupts import held_back
from lab.topology import BUCKET, JUPYTER, LabSpec

if TYPE_CHECKING:
    from lab.lab import Lab

GRACE_SECONDS = 60.0
"""How much longer than its notebook the process that executes it may take."""

JOIN_SECONDS = 120.0
"""How long what runs beside a notebook may go on once the notebook has come to its end."""

GIVE_UP_SECONDS = 30.0
"""The same when the notebook has failed: what was broken has to be mended."""

STOP_SECONDS = 30.0

LEAST_WORKERS = 2
NEEDED_CPUS = 8
"""Logical CPUs of each worker that the course's commands ask for."""


@dataclass(frozen=True)
class Step:
    """Something that happened in a run. `kind`: `note`, `begin`, `cell`, `beside`."""

    kind: str
    text: str
    number: int = 0
    """Of the cell, counted from 1."""
    of: int = 0
    seconds: float | None = None
    output: str = ""


OnStep = Callable[[Step], None]
GetData = Callable[[str, Callable[[str], None]], object]
"""Gets the dataset of that name, unless it is there; the function is for what a person should know."""


def place(lab: str) -> Path:
    """The folder on this machine that keeps a lab's results."""
    return home() / lab / "lessons"


def results(lab: Lab) -> dict[int, Document]:
    """The best result of each lesson, of those kept on this machine and, if the lab is up, in its store."""
    kept = on_host(place(lab.name))
    with contextlib.suppress(LabError):
        if lab.status().up:
            return newest(kept, in_store(lab.store))
    return kept


def run_lesson(
    lab: Lab,
    lesson: Lesson,
    spec: Callable[[], LabSpec],
    *,
    get_data: GetData,
    on_step: OnStep,
    on_progress: OnProgress = ignore_progress,
    clock: Callable[[], float] = time.time,
) -> LessonResult:
    """Do a lesson: boot the lab if it is down, get what the lesson needs, execute its notebook, check.

    `spec` says what a lab that is down is started with. Raises LessonError when a cell fails, and what the
    parts raise.
    """
    if not lab.status().up:
        lab.up(spec(), on_progress)
    check_lab(lab)
    for dataset in lesson.needs:
        get_data(dataset, lambda line: on_step(Step("note", line)))
    beside = Companion(lab, lesson, on_step)
    try:
        execute_notebook(lab.runtime, lesson, on_step)
    except BaseException:
        beside.give_up()
        raise
    beside.finish()
    if not lesson.checks_after_down:
        return check_lesson(lab, lesson, clock=clock)
    first = check_lesson(lab, lesson, clock=clock)
    if not all(check.outcome == "passed" for check in first.checks[: len(lesson.checks)]):
        return first
    on_step(Step("note", f"taking lab {lab.name} down; its stored objects stay"))
    lab.down(on_progress=on_progress)
    return check_lesson(lab, lesson, clock=clock)


def check_lab(lab: Lab) -> None:
    """Raises RefusedError unless the lab has what the commands in the notebooks ask for."""
    fit = places({"CPU": NEEDED_CPUS, "GPU": 1}, lab.api.nodes(), LEAST_WORKERS)
    if fit < LEAST_WORKERS:
        raise RefusedError(
            f"lessons need {LEAST_WORKERS} workers with {NEEDED_CPUS} CPUs and a GPU each; "
            f"lab {lab.name} has {fit} of them",
            "`labctl down`, then let `labctl lesson run` start the lab; or `labctl restart` what is down",
        )


def check_lesson(lab: Lab, lesson: Lesson, *, clock: Callable[[], float] = time.time) -> LessonResult:
    """Ask the checks of a lesson, and keep the result on this machine and in the store.

    Raises LabDownError when the lab is down and the checks need it, and what gathering raises.
    """
    status = lab.status()
    if status.up:
        evidence = replace(gather(lab, lesson), kept=lab.runtime.kept())
        more = tuple(ask(check, evidence) for check in lesson.checks_after_down)
        result = judge(lesson, evidence, at=clock(), more=more)
        keep_in_store(lab.store, result)
    elif lesson.checks_after_down:
        evidence = Evidence(lesson.number, status=status, kept=lab.runtime.kept())
        result = _after_down(lab, lesson, evidence, clock())
    else:
        raise LabDownError(
            f"lab {lab.name} is down, and the checks of lesson {lesson.number} look at it",
            f"`labctl up`, or `labctl lesson run {lesson.number}`",
        )
    keep_on_host(place(lab.name), result.to_json())
    return result


def _after_down(lab: Lab, lesson: Lesson, evidence: Evidence, at: float) -> LessonResult:
    """What was answered while the lab was up, and what can be answered now."""
    before = on_host(place(lab.name)).get(lesson.number)
    if before is None:
        raise LabDownError(
            f"lab {lab.name} is down, and what lesson {lesson.number} looks at before was not looked at",
            f"`labctl up`, then `labctl lesson run {lesson.number}`",
        )
    answered = tuple(
        Check(each["name"], "passed" if each["passed"] else "failed", each["detail"])
        for each in before["checks"][: len(lesson.checks)]
    )
    return LessonResult(
        lesson=lesson.number,
        name=lesson.name,
        title=lesson.title,
        student="",
        lab=before["lab"],
        runtime=before["runtime"],
        gpu=before["gpu"],
        raylab_version=before["versions"]["raylab"],
        ray_version=before["versions"]["ray"],
        at=at,
        checks=(*answered, *(ask(check, evidence) for check in lesson.checks_after_down)),
        measured=before["measured"],
        jobs=tuple(JobRecord(job["submission_id"], job["status"]) for job in before["jobs"]),
    )


def execute_notebook(runtime: Runtime, lesson: Lesson, on_step: OnStep) -> None:
    """Execute the lesson's notebook in the lab's JupyterLab, telling each cell.

    Interrupted, it ends the kernel. Raises LessonError when a cell fails, LabDownError when Jupyter does not
    run.
    """
    reader = _Reader(on_step)
    command = ("python", "-m", "lab.lessons.execute")
    argv = (
        *command,
        f"notebooks/{lesson.notebook}",
        *("--lesson", str(lesson.number)),
        *("--seconds", f"{lesson.seconds:g}"),
    )
    try:
        ended = runtime.execute(JUPYTER, argv, timeout=lesson.seconds + GRACE_SECONDS, on_line=reader.read)
    except BaseException:
        if reader.pid is not None:
            with held_back(), contextlib.suppress(LabError):
                runtime.execute(JUPYTER, (*command, "--stop", str(reader.pid)), timeout=STOP_SECONDS)
        raise
    if reader.failure is not None:
        number, of, why = reader.failure
        where = f"cell {number} of {of} of {lesson.notebook}" if number else lesson.notebook
        kept = f"what it printed is in s3://{BUCKET}/{reader.stored}" if reader.stored else ""
        raise LessonError(f"{where} failed: {why}", kept or "look at the workspace that Jupyter shows")
    if ended.exit_code:
        last = "\n".join(reader.others[-10:]) or "it said nothing"
        raise LessonError(
            f"{lesson.notebook} could not be executed (exit code {ended.exit_code}): {last}",
            f"open it in JupyterLab: `labctl services`; look at `labctl logs {JUPYTER}`",
        )


class _Reader:
    """Turns the lines of lab.lessons.execute into steps."""

    def __init__(self, on_step: OnStep) -> None:
        self.pid: int | None = None
        self.failure: tuple[int, int, str] | None = None
        self.stored = ""
        self.others: list[str] = []
        """Lines that are no events."""
        self._on_step = on_step

    def read(self, line: str) -> None:
        """Take one line."""
        event = _event(line)
        match event.get("event"):
            case "started":
                self.pid = int(event["pid"])
            case "begin" | "cell" as kind:
                seconds = event.get("seconds")
                self._on_step(
                    Step(kind, event["line"], event["number"], event["of"], seconds, event.get("output", ""))
                )
            case "failed":
                self.failure = event["number"], event["of"], event["error"]
            case "stored":
                self.stored = event["key"]
                if not self.stored:
                    self._on_step(Step("note", f"the executed notebook is not kept: {event['error']}"))
            case _:
                self.others.append(line)


def _event(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class Companion:
    """Runs a lesson's `meanwhile` in a thread beside the notebook."""

    def __init__(self, lab: Lab, lesson: Lesson, on_step: OnStep) -> None:
        """Starts at once, if the lesson has such a function."""
        from lab.lab import Lab as OpenLab

        self._on_step = on_step
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        if lesson.meanwhile is not None:
            meanwhile, own = lesson.meanwhile, OpenLab(lab.runtime)
            self._thread = threading.Thread(
                target=self._run, args=(meanwhile, own), name=f"beside lesson {lesson.number}", daemon=True
            )
            self._thread.start()

    def __call__(self, line: str) -> None:
        """See Beside."""
        if self._over.is_set():
            raise NotebookOverError
        self._on_step(Step("beside", line))

    def sleep(self, seconds: float) -> None:
        """See Beside."""
        if self._over.wait(seconds):
            raise NotebookOverError

    def _run(self, meanwhile: Callable[[Lab, Beside], None], lab: Lab) -> None:
        try:
            meanwhile(lab, self)
        except NotebookOverError:
            pass
        except LabError as error:
            self._on_step(Step("beside", f"{error.message}{f' -> {error.hint}' if error.hint else ''}"))

    def finish(self) -> None:
        """The notebook has come to its end: wait for what still goes on, and then give it up."""
        try:
            if self._thread is not None:
                self._thread.join(JOIN_SECONDS)
        finally:
            self.give_up()

    def give_up(self) -> None:
        """The notebook is over: what goes on is told so with its next word, and may mend what it broke."""
        self._over.set()
        if self._thread is not None:
            with held_back():
                self._thread.join(GIVE_UP_SECONDS)
