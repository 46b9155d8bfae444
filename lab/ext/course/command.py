"""lesson: the exercises of the course, run, checked and handed in; class collect: those of a class."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lab.cli import format, render, values
from lab.cli.commands.lab import prepare
from lab.cli.context import App, LabCommand, LabGroup, pass_app
from lab.cli.live import ProgressLines
from lab.errors import LessonError, SetupError, UsageError
from lab.ext.course.data import data
from lab.host.quantities import plural
from lab.runtime.spec import Asked

if TYPE_CHECKING:
    from lab.ext.course.documents import ReportDocument
    from lab.ext.course.lessons.model import Lesson, LessonResult
    from lab.ext.course.lessons.run import NotebookStep
    from lab.lab import Lab

NUMBER = values.WholeNumber(0, 99)
SHOWN = 70
"""Characters of a cell's first line that are shown."""


@click.group(cls=LabGroup)
def lesson() -> None:
    """Do the exercises of the course, and get their data sets.

    An exercise is a notebook that checks itself.
    """


def _open(app: App) -> Lab:
    """The lab; of a class with the store that the person's own key reaches."""
    from lab.ext.course.lessons.evidence import with_own_store

    return with_own_store(app.open())


@lesson.command("list")
@pass_app
def lesson_list(app: App) -> None:
    """List the lessons, and which are passed in this lab."""
    from lab.ext.course.documents import ListedLesson
    from lab.ext.course.lessons import lessons
    from lab.ext.course.lessons.run import results

    available, checked = lessons(), results(_open(app))
    documents, rows = [], []
    for item in available:
        result = checked.get(item.number)
        passed, at = (result.passed, result.at) if result else (None, None)
        documents.append(
            ListedLesson(
                item.number, item.name, item.title, item.notebook, item.minutes, item.needs, passed, at
            )
        )
        standing = f"{'passed' if passed else 'not passed yet'} ({format.clock(at)})" if result else "never"
        rows.append((item.number, item.title, f"{item.minutes} min", standing, item.notebook))
    if not app.out.as_json({"lessons": documents}):
        app.out.show(render.table(("NUMBER", "LESSON", "TAKES", "CHECKED", "NOTEBOOK"), rows))


@lesson.command("run")
@click.argument("number", metavar="[N]", type=NUMBER, required=False, help="A lesson; see `lesson list`.")
@click.option("--all", "every", is_flag=True, help="All lessons in order, until one is not passed.")
@pass_app
def lesson_run(app: App, number: int | None, every: bool) -> None:
    """Do a lesson: start the lab if it is down, execute the notebook in its JupyterLab, check.

    Exits with 0 only when every check passed, else with 19. With --verbose it shows what the cells print.
    """
    from lab.ext.course.lessons import find_lesson, lessons

    if (number is None) is not every:
        raise UsageError("name one lesson, or say --all", "see `labctl lesson list`")
    chosen = lessons() if number is None else (find_lesson(number),)
    results = []
    for item in chosen:
        if every:
            app.out.note(f"lesson {item.number}: {item.title}")
        result = _run(app, item)
        results.append(result)
        if not app.out.json_wanted:
            _show(app, item, result)
        if not result.passed:
            break
    if app.out.json_wanted:
        checked = [result.to_json() for result in results]
        app.out.document({"results": checked} if every else checked[0])
    _judge(app, results[-1])


def _run(app: App, item: Lesson) -> LessonResult:
    from lab.ext.course.datasets import ensure
    from lab.ext.course.lessons.run import run_lesson

    def tell(step: NotebookStep) -> None:
        """A line on stderr for each cell that has ended, and for what happened between them."""
        if step.kind != "cell":
            app.out.note(f"{'':16}{step.text}" if step.kind == "beside" else step.text)
            return
        line = step.text if len(step.text) <= SHOWN else f"{step.text[: SHOWN - 3]}..."
        app.out.note(f"cell {step.number:>2}/{step.of:<2}{format.seconds(step.seconds):>11}  {line}")
        if app.verbose and step.output.strip():
            app.out.note(step.output.rstrip())

    return run_lesson(
        app.open(),
        item,
        lambda: prepare(app, Asked())[1],
        get_data=ensure,
        on_step=tell,
        on_progress=ProgressLines(app.out).progress,
    )


@lesson.command("check")
@click.argument("number", metavar="N", type=NUMBER, help="A lesson; see `lesson list`.")
@pass_app
def lesson_check(app: App, number: int) -> None:
    """Check a lesson that was done by hand in JupyterLab, and keep the result.

    Exits with 0 only when every check passed, else with 19.
    """
    from lab.ext.course.lessons import find_lesson
    from lab.ext.course.lessons.run import check_lesson

    item = find_lesson(number)
    result = check_lesson(_open(app), item)
    if not app.out.as_json(result.to_json()):
        _show(app, item, result)
    _judge(app, result)


def _show(app: App, item: Lesson, result: LessonResult) -> None:
    from lab.ext.course.lessons.results import table

    for line in table(item, result):
        app.out.advise(line)


def _judge(app: App, result: LessonResult) -> None:
    """Exit with 19 unless every check passed."""
    if result.passed:
        return
    missing = [check for check in result.checks if check.outcome != "passed"]
    names = ", ".join(check.name for check in missing)
    hint = next((check.hint for check in missing if check.hint), "")
    app.fail(LessonError(f"lesson {result.document.lesson} is not passed yet: {names}", hint))


@lesson.command("restore")
@click.argument("number", metavar="N", type=NUMBER, help="A lesson; see `lesson list`.")
@pass_app
def lesson_restore(app: App, number: int) -> None:
    """Put the notebook of a lesson back as it came, to begin again.

    One that was changed is kept beside it, under another name. The lab need not be up.
    """
    from lab.ext.course.lessons import find_lesson
    from lab.ext.course.lessons.restore import restore

    notebook, kept = restore(find_lesson(number))
    if not app.out.as_json({"notebook": notebook, "kept": kept}):
        app.out.line(f"{notebook} is restored{f'; yours is now {kept}' if kept else ''}")


@lesson.command("report")
@click.option("--student", type=values.Text(), metavar="NAME", help="Name of the student.")
@click.option("--output", type=values.Place(), metavar="FILE", help="File to write. [default: print it]")
@click.option(
    "--verify", type=values.Place(), metavar="FILE", multiple=True,
    help="Look at a report that was handed in instead; repeatable.",
)  # fmt: skip
@pass_app
def lesson_report(app: App, student: str | None, output: Path | None, verify: tuple[Path, ...]) -> None:
    """Write the results of all lessons into one JSON document, to hand in.

    With --verify, check files that were handed in, and exit with 19 if one does not fit; with --verbose, too,
    show the answers in them.
    """
    if verify:
        if student or output is not None:
            raise UsageError(
                "--verify looks at reports, --student and --output write one: they cannot be used together",
                "leave one out",
            )
        _verify(app, verify)
        return
    if student is None:
        raise UsageError("--student is missing", 'for example --student "Ada Lovelace"')
    from lab.ext.course.documents import written
    from lab.ext.course.lessons.results import dump, make_report
    from lab.ext.course.lessons.run import collect, results

    lab = _open(app)
    why = collect(lab)
    if why:
        app.out.note(
            f"{why}, so its store was not asked: what a notebook checked by itself is in the report only if "
            "`labctl down` or `labctl lesson` has seen it since"
        )
    report = make_report(results(lab), student, time.time())
    if output is not None:
        try:
            output.write_text(dump(report) + "\n", encoding="utf-8")
        except OSError as error:
            raise SetupError(f"cannot write {output}: {error.strerror}", "choose another file") from error
    if output is None or app.out.json_wanted:
        app.out.document(written(report))
        return
    app.out.line(f"{output}: {plural(len(report.results), 'lesson')}{_summary(report)}")


def _summary(report: ReportDocument) -> str:
    names = {"passed": report.passed, "missing": report.missing}
    return "".join(f"; {name}: {', '.join(map(str, numbers))}" for name, numbers in names.items() if numbers)


def _verify(app: App, files: tuple[Path, ...]) -> None:
    from lab.ext.course.lessons.results import copies, read_report, shown, verify

    intact: dict[str, ReportDocument] = {}
    documents, lines = [], list[str]()
    for file in map(str, files):
        try:
            report = read_report(Path(file))
            problems = verify(report)
        except UsageError as unreadable:
            problems = (unreadable.message,)
        document: dict[str, object] = {
            "file": file,
            "student": None,
            "passed": None,
            "missing": None,
            "problems": problems,
        }
        lines.append(f"{file}:")
        if not problems:
            intact[file] = report
            document |= {"student": report.student, "passed": report.passed, "missing": report.missing}
            lines[-1] += f" {report.student}{_summary(report)}"
        documents.append(document)
        lines += [f"  does not fit: {problem}" for problem in problems]
        for result in report.results if not problems and app.verbose else ():
            for question, text in (result.answers or {}).items():
                lines.append(f"  lesson {result.lesson}, question {question}: {' '.join(text.split())}")
    same = copies(intact)
    if not app.out.as_json({"reports": documents, "copies": same}):
        for line in (*lines, *(f"copied: {line}" for line in same)):
            app.out.line(shown(line))
    if len(intact) < len(files) or same:
        app.fail(LessonError("not every report is as labctl wrote it", "ask for the file again, unchanged"))


@click.command(cls=LabCommand)
@click.argument("folder", type=values.Place(), metavar="DIR", help="Folder with *.json.")
@pass_app
def collect(app: App, folder: Path) -> None:
    """Check the lesson reports of a folder against the lab, and keep what each person has passed.

    A report that was edited, or that the lab contradicts, is refused with lines and reasons; then it exits
    with 19.
    """
    from lab.ext.course.lessons import handed_in
    from lab.flows.people import Classroom
    from lab.people.progress import CLAIMED, FAILED, PASSED, read_progress, write_progress

    registry = Classroom(app.open(), clock=app.clock, say=app.out.note).registry
    people, place = registry.people(), registry.path.parent
    handed = handed_in.collect(app.open(), folder, people)
    write_progress(place, handed_in.merged(read_progress(place), handed, people, time.time()))
    if not app.out.as_json({"reports": handed}):
        for one in handed:
            for problem in one.problems:
                app.out.line(f"{one.file}, {problem}")
            if not one.problems:
                numbers = {
                    state: [str(standing.lesson) for standing in one.lessons if standing.state == state]
                    for state in (PASSED, CLAIMED, FAILED)
                }
                said = "; ".join(f"{state}: {', '.join(few)}" for state, few in numbers.items() if few)
                app.out.line(f"{one.file}: {one.person}: {said}")
    if refused := [one.file for one in handed if one.problems]:
        app.fail(LessonError(f"refused: {', '.join(refused)}", "ask for these files again, unchanged"))


lesson.add_command(data)

COMMANDS = (lesson, collect)
