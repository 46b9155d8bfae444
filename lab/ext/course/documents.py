"""What a student did of the lessons: results as they are kept, and the report that is handed in.

Each `sha256` is over the canonical JSON of its object without it: keys sorted, no spaces, UTF-8. It finds
accidental edits and protects against nobody. Times named `at` are seconds since the epoch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import Final, Literal, TypeVar

from lab.api.base import Number, Plain, Strict

RESULT_SCHEMA: Final = "lesson-result/1"
REPORT_SCHEMA: Final = "lesson-report/1"


@dataclass(frozen=True)
class Versions(Strict):
    """The versions with which it was done."""

    raylab: str
    ray: str | None = None
    """Empty when Ray could not be asked; a report has none."""


@dataclass(frozen=True)
class CheckRecord(Strict):
    """One check of a lesson."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class JobRecord(Strict):
    """One job of a lesson."""

    submission_id: str
    status: str
    started_at: Number | None = None
    """When Ray took it, to the millisecond; not there when Ray did not say."""


@dataclass(frozen=True)
class ResultDocument(Strict):
    """One lesson, as it was checked last."""

    schema: Literal["lesson-result/1"]
    lesson: int
    name: str
    title: str
    student: str
    """Empty until the result is part of a report."""
    lab: str
    runtime: str
    gpu: str
    """nvidia, amd, simulated or none."""
    versions: Versions
    at: Number
    passed: bool
    checks: tuple[CheckRecord, ...]
    measured: Mapping[str, object]
    """What the notebook measured, by name."""
    jobs: tuple[JobRecord, ...]
    """Newest first."""
    answers: Mapping[str, str] | None = None
    """The student's answers, by the number of the question; not there when none was given."""
    sha256: str = ""


@dataclass(frozen=True)
class ReportDocument(Strict):
    """The results of all lessons, to hand in."""

    schema: Literal["lesson-report/1"]
    student: str
    at: Number
    versions: Versions
    passed: tuple[int, ...]
    """Numbers of the lessons whose every check passed."""
    missing: tuple[int, ...]
    """Numbers of the lessons that were never checked."""
    results: tuple[ResultDocument, ...]
    sha256: str = ""


@dataclass(frozen=True)
class ListedLesson:
    """One lesson, as `lesson list --json` has it."""

    number: int
    name: str
    title: str
    notebook: str
    minutes: int
    needs: tuple[str, ...]
    passed: bool | None
    """None where it was never checked, as `at`."""
    at: Number | None


Signed = TypeVar("Signed", ResultDocument, ReportDocument)


def written(shape: object) -> Plain:
    """Plain data of a shape; a field that is None is left out, and what was measured stays as it is."""
    if is_dataclass(shape):
        return {name: written(value) for name, value in vars(shape).items() if value is not None}
    return [written(part) for part in shape] if isinstance(shape, tuple) else shape


def digest(document: ResultDocument | ReportDocument) -> str:
    """SHA-256 of a document, as its `sha256` should be."""
    content = {key: value for key, value in written(document).items() if key != "sha256"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def signed(document: Signed) -> Signed:
    """The document with its digest."""
    return replace(document, sha256=digest(document))
