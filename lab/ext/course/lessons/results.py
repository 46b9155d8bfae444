"""Results of lessons: judged from evidence, kept on the host and in the store, drawn as text, handed in."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from lab.api.base import parse
from lab.errors import RefusedError, UsageError
from lab.ext.course.documents import (
    REPORT_SCHEMA,
    RESULT_SCHEMA,
    ReportDocument,
    ResultDocument,
    Versions,
    digest,
    signed,
    written,
)
from lab.ext.course.lessons.catalogue import find_lesson, numbers
from lab.ext.course.lessons.evidence import folder
from lab.ext.course.lessons.model import Evidence, Lesson, LessonResult, job_record
from lab.host.files import write_private
from lab.host.reading import named_text, parse_json, read_json
from lab.store import MissingObjectError, Store
from lab.topology import Check
from lab.version import __version__

MOST_CHARACTERS = 100
MOST_BYTES = 10 * 1024**2
"""Largest file that is read as a report."""

RESULT_FILE = "lesson-{:02d}.json"
"""Name on the host of the best result of a lesson."""


def judge(lesson: Lesson, evidence: Evidence, *, at: float, more: Iterable[Check] = ()) -> LessonResult:
    """Every check of `lesson` on `evidence`, and `more` that were answered elsewhere."""
    status = evidence.status
    frame = ResultDocument(
        schema=RESULT_SCHEMA,
        lesson=lesson.number,
        name=lesson.name,
        title=lesson.title,
        student="",
        lab=status.name,
        runtime="compose" if status.runtime == "inside" else status.runtime,
        gpu=status.gpu.vendor.value,
        versions=Versions(__version__, evidence.ray_version),
        at=at,
        passed=False,
        checks=(),
        measured=evidence.records,
        jobs=tuple(map(job_record, evidence.jobs)),
        answers=evidence.answers or None,
    )
    return LessonResult.of(frame, (*(check(evidence) for check in lesson.checks), *more), at)


def not_yet(lesson: Lesson) -> tuple[Check, ...]:
    """The checks that only the host can ask, once the lab is down: the lesson is not passed yet."""
    hint = f"on the host: `labctl lesson check {lesson.number}`, `labctl down`, and the check again"
    return tuple(
        Check(check.name, "skipped", "asked once the lab is down", hint) for check in lesson.checks_after_down
    )


def store_key(lesson: int) -> str:
    """Key of the result of a lesson in the bucket."""
    return f"{folder(lesson)}/result.json"


def keep_in_store(store: Store, result: LessonResult) -> None:
    """Put the result into the store, unless an older one has passed and this has not. Raises StoreError."""
    document = result.document
    if not _worse(document, _stored(store, document.lesson)):
        store.put(store_key(document.lesson), dump(document).encode())


def keep_on_host(place: Path, document: ResultDocument) -> None:
    """Write a result into the lab's folder of lessons, unless an older one has passed and this has not.

    Raises SetupError.
    """
    if not _worse(document, _filed(place, document.lesson)):
        write_private(place / RESULT_FILE.format(document.lesson), dump(document) + "\n")


def _worse(document: ResultDocument, kept: ResultDocument | None) -> bool:
    return kept is not None and kept.passed and not document.passed


def dump(document: ResultDocument | ReportDocument) -> str:
    """A document as a person can read it."""
    return json.dumps(written(document), indent=1, ensure_ascii=False)


def on_host(place: Path) -> dict[int, ResultDocument]:
    """The results in a lab's folder of lessons, by lesson. A damaged file counts as none."""
    return {number: document for number in numbers() if (document := _filed(place, number)) is not None}


def in_store(store: Store) -> dict[int, ResultDocument]:
    """The results in the store, by lesson: what notebooks checked themselves. Raises StoreError."""
    return {number: document for number in numbers() if (document := _stored(store, number)) is not None}


def _filed(place: Path, lesson: int) -> ResultDocument | None:
    return _result(lambda: read_json(place / RESULT_FILE.format(lesson)), lesson)


def _stored(store: Store, lesson: int) -> ResultDocument | None:
    return _result(lambda: parse_json(store.get(store_key(lesson))), lesson)


def _result(read: Callable[[], object], lesson: int) -> ResultDocument | None:
    """What is read, if it is an intact result of this lesson. Raises StoreError."""
    try:
        result = parse(ResultDocument, read(), "the result")
    except (MissingObjectError, OSError, ValueError, UsageError):
        return None
    return result if result.lesson == lesson and result.checks and result.sha256 == digest(result) else None


def newest(*sources: Mapping[int, ResultDocument]) -> dict[int, ResultDocument]:
    """The best result of each lesson: one that passed before one that did not, then the newer."""
    latest: dict[int, ResultDocument] = {}
    for number, document in (entry for source in sources for entry in source.items()):
        latest[number] = max(latest.get(number, document), document, key=lambda one: (one.passed, one.at))
    return dict(sorted(latest.items()))


def table(lesson: Lesson, result: LessonResult) -> list[str]:
    """The result as lines of plain text, as wide as its longest check."""
    width = max((len(check.name) for check in result.checks), default=0)
    lines = []
    for check in result.checks:
        good = check.outcome == "passed"
        mark = "ok  " if good else "then" if check.outcome == "skipped" else "FAIL"
        lines.append(f"  {mark}  {check.name:<{width}}  {check.detail}".rstrip())
        if check.hint and not good:
            lines.append(f"        {'':<{width}}  -> {check.hint}")
    if answers := result.document.answers:
        lines.append(f"  with an answer to question {', '.join(answers)}")
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(result.document.at))
    done = sum(check.outcome == "passed" for check in result.checks)
    verdict = "passed" if result.passed else "not passed yet"
    return [
        f"Lesson {lesson.number}, {lesson.title}: {verdict} ({done} of {len(result.checks)} checks), {when}",
        *lines,
    ]


# The report, to hand in and to verify


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
