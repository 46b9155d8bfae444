"""Results of lessons: judged from evidence, kept on the host and in the store, drawn as plain text."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from lab.api.base import parse
from lab.errors import UsageError
from lab.ext.course.documents import RESULT_SCHEMA, ReportDocument, ResultDocument, Versions, digest, written
from lab.ext.course.lessons.catalogue import numbers
from lab.ext.course.lessons.evidence import folder
from lab.ext.course.lessons.model import Evidence, Lesson, LessonResult, job_record
from lab.host.files import write_private
from lab.host.reading import parse_json, read_json
from lab.store import MissingObjectError, Store
from lab.topology import Check
from lab.version import __version__

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
