"""The flow of `labctl lesson run` and `check`: a lab, its data, the notebook, the checks."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.cluster.api import places
from lab.errors import LabDownError, LabError, LessonError, RefusedError
from lab.ext.course.documents import ResultDocument
from lab.ext.course.lessons.evidence import gather, store_of
from lab.ext.course.lessons.model import (
    Evidence,
    HostTask,
    Lesson,
    LessonResult,
    NotebookOverError,
    job_prefix,
)
from lab.ext.course.lessons.results import (
    in_store,
    judge,
    keep_in_store,
    keep_on_host,
    newest,
    on_host,
)
from lab.host.clock import WALL, Clock
from lab.host.files import home
from lab.host.interrupts import Background, held_back
from lab.host.reading import parse_json
from lab.runtime.base import NodeControl, OnProgress, control_of, ignore_progress
from lab.services import JUPYTER, STORE
from lab.topology import BUCKET, Check, LabSpec, State

if TYPE_CHECKING:
    from lab.lab import Lab

JOIN_SECONDS = 120.0
"""Timeout for a host task once its notebook has come to the end."""

GIVE_UP_SECONDS = 30.0
"""Timeout when the notebook has failed: the task has to mend what it broke."""

LEAST_WORKERS = 2
NEEDED_CPUS = 8
"""Logical CPUs of each worker that the course's commands ask for."""


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

GetData = Callable[[str, Callable[[str], None]], object]
"""Gets the data set of that name, unless it is there; the function takes lines for a person."""


def place(lab: str) -> Path:
    """The folder on this machine that keeps a lab's results."""
    return home() / lab / "lessons"


def results(lab: Lab) -> dict[int, ResultDocument]:
    """The best result of each lesson, of those kept on this machine and, if the lab is up, in its store."""
    collect(lab)
    return on_host(place(lab.name))


def before_down(lab: Lab) -> str:
    """Copy the results of lessons before the lab goes; see `collect`."""
    why = collect(lab)
    return f"results of lessons that only the store holds stay there: {why}" if why else ""


def collect(lab: Lab) -> str:
    """Copy the results that notebooks left in the store to this machine, where they outlive the lab.

    Returns why the store could not be asked, or nothing.
    """
    folder = place(lab.name)
    try:
        status = lab.status()
        store = next((service for service in status.services if service.service == STORE), None)
        if not status.up:
            return f"lab {lab.name} is down"
        if store is not None and store.state in (State.ABSENT, State.EXITED):
            return f"{STORE} of lab {lab.name} is down"
        kept = on_host(folder)
        for number, document in newest(kept, in_store(store_of(lab))).items():
            if document != kept.get(number):
                keep_on_host(folder, document)
    except LabError as error:
        return error.message
    except (OSError, ValueError) as error:  # `down` has to go on, whatever half-state the lab is in
        return str(error)
    return ""


def run_lesson(
    lab: Lab,
    lesson: Lesson,
    spec: Callable[[], LabSpec],
    *,
    get_data: GetData,
    on_step: OnStep,
    on_progress: OnProgress = ignore_progress,
    clock: Clock = WALL,
) -> LessonResult:
    """Do a lesson: boot the lab if it is down, get what the lesson needs, execute its notebook, check.

    `spec` says what a lab that is down is started with. When a cell fails, or the notebook
    is interrupted, the lesson's jobs are stopped. Raises LessonError when a cell fails, and what the parts
    raise.
    """

    def note(line: str) -> None:
        on_step(NotebookStep("note", line))

    if not lab.status().up:
        lab.up(spec(), on_progress)
    control = control_of(lab.view, "execute a lesson's notebook", f"lesson run {lesson.number}")
    check_lab(lab)
    for dataset in lesson.needs:
        get_data(dataset, note)
    task = HostTaskThread(lab, lesson, on_step)
    try:
        execute_notebook(control, lesson, on_step)
    except BaseException:
        try:
            task.end()
            stop_jobs(lab, lesson, note)
        except KeyboardInterrupt:
            note(f"jobs of lesson {lesson.number} may still run; {lab.view.advice(['jobs'], '')} shows them")
            raise
        raise
    task.end(JOIN_SECONDS)
    first = check_lesson(lab, lesson, clock=clock)
    good = all(check.outcome == "passed" for check in first.checks[: len(lesson.checks)])
    if not (lesson.checks_after_down and good):
        return first
    note(f"taking lab {lab.name} down; its stored objects stay")
    lab.down(on_progress=on_progress)
    return check_lesson(lab, lesson, clock=clock)


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


def stop_jobs(lab: Lab, lesson: Lesson, say: Callable[[str], None]) -> None:
    """Stop the lesson's jobs that have not ended: they would hold the GPUs against the next run.

    What cannot be stopped is told. Jobs of queues go first: one that waits would take the place of another.
    """
    mine = job_prefix(lesson.number)
    left: list[tuple[str, Callable[[str], object]]] = []
    with contextlib.suppress(LabError):  # where no controller answers there are none
        queued = lab.queues.list().workloads
        left += [(job.workload, lab.queues.cancel) for job in queued if job.name.startswith(mine)]
    try:
        jobs = [job for job in lab.jobs.list() if job.submission_id.startswith(mine) and not job.final]
        left += [(job.submission_id, lab.jobs.stop) for job in jobs]
    except LabError as error:
        say(f"it is not known whether jobs of lesson {lesson.number} are left: {error.message}")
    for name, stop in left:
        say(f"stopping job {name}")
        try:
            stop(name)
        except LabError as error:
            say(f"job {name} is not stopped: {error.message}")


def check_lab(lab: Lab) -> None:
    """Refuse a lab without what the commands in the notebooks ask for. Raises RefusedError."""
    fit = places({"CPU": NEEDED_CPUS, "GPU": 1}, lab.api.nodes(), LEAST_WORKERS)
    if fit < LEAST_WORKERS:
        raise RefusedError(
            f"lessons need {LEAST_WORKERS} workers with {NEEDED_CPUS} CPUs and a GPU each; "
            f"lab {lab.name} has {fit} of them",
            "`labctl down`, then let `labctl lesson run` start the lab; or `labctl restart` what is down",
        )


def check_lesson(lab: Lab, lesson: Lesson, *, clock: Clock = WALL) -> LessonResult:
    """Ask the checks of a lesson, and keep the result on this machine and in the store.

    Of a lab that is down only `checks_after_down` are asked: what it answered before is in the kept result.
    Raises LabDownError when there is none, and what gathering raises.
    """
    status, kept = lab.status(), lab.view.kept()
    if status.up:
        evidence = replace(gather(lab, lesson), kept=kept)
        more = tuple(check(evidence) for check in lesson.checks_after_down)
        result = judge(lesson, evidence, at=clock(), more=more)
        keep_in_store(store_of(lab), result)
        collect(lab)
    else:
        before = on_host(place(lab.name)).get(lesson.number)
        if before is None or not lesson.checks_after_down:
            raise LabDownError(
                f"lab {lab.name} is down, and the checks of lesson {lesson.number} look at it",
                f"`labctl up`, or `labctl lesson run {lesson.number}`",
            )
        answered = tuple(
            Check(check.name, "passed" if check.passed else "failed", check.detail)
            for check in before.checks[: len(lesson.checks)]
        )
        evidence = Evidence(lesson.number, status=status, kept=kept)
        later = tuple(check(evidence) for check in lesson.checks_after_down)
        result = LessonResult.of(before, (*answered, *later), clock())
    keep_on_host(place(lab.name), result.document)
    return result


class HostTaskThread:
    """Runs the host task of a lesson in a thread beside the notebook; the task's clock, too."""

    def __init__(self, lab: Lab, lesson: Lesson, on_step: OnStep) -> None:
        """Starts at once, if the lesson has such a task."""
        self._on_step, self._over = on_step, threading.Event()
        name = f"host task of lesson {lesson.number}"
        self._task = Background(lambda: self._run(lab, lesson), name) if lesson.host_task else None

    def __call__(self) -> float:
        return WALL()

    def sleep(self, seconds: float) -> None:
        if self._over.wait(seconds):
            raise NotebookOverError

    def say(self, line: str) -> None:
        if self._over.is_set():
            raise NotebookOverError
        self._on_step(NotebookStep("beside", line))

    def _run(self, lab: Lab, lesson: Lesson) -> None:
        from lab.lab import Lab as OpenLab

        try:
            if lesson.host_task is not None:
                lesson.host_task(OpenLab(lab.view), HostTask(self.say, self))
        except NotebookOverError:
            pass
        except LabError as error:
            hint = f" -> {error.hint}" if error.hint else ""
            self._on_step(NotebookStep("beside", f"{error.message}{hint}"))

    def end(self, seconds: float = 0.0) -> None:
        """Wait for the task, then end it: its next word or sleep raises, and it may mend what it broke."""
        if self._task is None:
            return
        try:
            if seconds:
                self._task.wait(seconds)
        finally:
            self._over.set()
            with held_back():
                self._task.wait(GIVE_UP_SECONDS)
