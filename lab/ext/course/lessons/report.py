"""Lesson reports: the results of all lessons in one document, to hand in and to verify."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from lab.api.base import parse
from lab.errors import RefusedError, UsageError
from lab.ext.course.documents import REPORT_SCHEMA, ReportDocument, ResultDocument, Versions, digest, signed
from lab.ext.course.lessons.catalogue import find_lesson, numbers
from lab.host.reading import named_text, parse_json
from lab.version import __version__

MOST_CHARACTERS = 100
MOST_BYTES = 10 * 1024**2
"""Largest file that is read as a report."""


def make_report(results: Mapping[int, ResultDocument], student: str, at: float) -> ReportDocument:
    """The report over these results, by lesson. `at` is in seconds since the epoch.

    Raises UsageError for a name that is none, RefusedError when there is no result.
    """
    name = " ".join(student.split())
    if not _is_name(name):
        raise UsageError(f"--student {student!r}: not a name", f"1 to {MOST_CHARACTERS} letters")
    if not results:
        raise RefusedError("no lesson of this lab has a result yet", "`labctl lesson run 1`, or `check 1`")
    own = tuple(signed(replace(results[number], student=name)) for number in sorted(results))
    return signed(
        ReportDocument(
            schema=REPORT_SCHEMA,
            student=name,
            at=round(at, 3),
            versions=Versions(__version__),
            passed=tuple(result.lesson for result in own if result.passed),
            missing=tuple(number for number in numbers() if number not in results),
            results=own,
        )
    )


def _is_name(student: str) -> bool:
    return (
        0 < len(student) <= MOST_CHARACTERS and student.isprintable() and student == " ".join(student.split())
    )


def shown(text: str) -> str:
    """A text from a file, on one line and without control characters."""
    return text if text.isprintable() else ascii(text)


def read_report(path: Path) -> ReportDocument:
    """The report in a file that was handed in. Raises NotFoundError, UsageError."""
    _, text = named_text(path, "report", "give the file that a student handed in", MOST_BYTES)
    try:
        document = parse_json(text)
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}", "ask for the file again, unchanged") from error
    return parse(ReportDocument, document, "the report")


def verify(report: ReportDocument) -> tuple[str, ...]:
    """What does not fit in a report, a line each; nothing when it is as labctl wrote it.

    Who reads labctl's source can write a report that fits. This finds accidents, not fraud.
    """
    return tuple(_misfits(report))


def _misfits(report: ReportDocument) -> Iterator[str]:
    if not _is_name(report.student):
        yield f"the student's name is not one: {report.student[:MOST_CHARACTERS]!a}"
    if report.sha256 != digest(report):
        yield "the report was changed after it was written (its SHA-256 is another)"
    for result in report.results:
        number = result.lesson
        if number not in numbers():
            yield f"lesson {number} is unknown here"
        elif len(result.checks) != (asked := find_lesson(number).asked):
            yield f"lesson {number} has {len(result.checks)} checks, not {asked}"
        if result.sha256 != digest(result):
            yield f"the result of lesson {number} was changed after it was checked (its SHA-256 is another)"


LEAST_SHARED = 2
"""Jobs that two reports must have in common to be called copied."""


def copies(reports: Mapping[str, ReportDocument]) -> tuple[str, ...]:
    """Reports, by file, that name the same jobs, a line each: two students did not run one job.

    A job is the same when lab, id and the millisecond in which Ray took it are: labs of one name, and ids of
    one second, are common in a class. One such job may be the teacher's example; several are not.
    """
    jobs = {
        file: {
            (result.lab, job.submission_id, job.started_at): result.lesson
            for result in report.results
            for job in result.jobs
            if job.started_at is not None
        }
        for file, report in reports.items()
    }
    return tuple(
        f"lesson {lesson} in {file} has the jobs of {reports[first].student}'s in {first}"
        for first, file in combinations(reports, 2)
        if reports[first].student != reports[file].student
        if len(shared := jobs[first].keys() & jobs[file].keys()) >= LEAST_SHARED
        for lesson in sorted({jobs[file][job] for job in shared})
    )
