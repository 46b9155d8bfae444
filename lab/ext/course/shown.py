"""The documents that the course's commands print with --json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from lab.api.base import plain
from lab.api.shown_here import ShownStanding

if TYPE_CHECKING:
    from lab.ext.course.datasets import Dataset
    from lab.ext.course.documents import ResultDocument
    from lab.ext.course.lessons.handed_in import HandedIn
    from lab.ext.course.lessons.model import Lesson


class ShownDataset(TypedDict):
    """One data set; `counts` says how many pictures each class of each split has."""

    name: str
    folder: str
    pictures: int
    counts: Mapping[str, Mapping[str, int]]
    bytes: int
    source: str
    sha256: str
    synthetic: bool
    missing: int


class ShownLesson(TypedDict):
    """One lesson. `passed` and `at` are null where it was never checked."""

    number: int
    name: str
    title: str
    notebook: str
    minutes: int
    needs: Sequence[str]
    passed: bool | None
    at: float | None


class ShownRestored(TypedDict):
    """Notebook of a lesson that is as it came, and the changed one that was kept; null where none was."""

    notebook: str
    kept: str | None


class ShownHandedIn(TypedDict):
    """A report that was handed in; one with problems is refused."""

    file: str
    person: str | None
    lessons: Sequence[ShownStanding]
    problems: Sequence[str]


class ShownCollection(TypedDict):
    """The reports of a folder."""

    reports: Sequence[ShownHandedIn]


def dataset(item: Dataset) -> ShownDataset:
    """One data set. Size in bytes; `counts` says how many pictures each class of each split has."""
    return {
        "name": item.name, "folder": str(item.folder), "pictures": item.pictures,
        "counts": plain(item.counts), "bytes": item.bytes, "source": item.source, "sha256": item.sha256,
        "synthetic": item.synthetic, "missing": item.missing,
    }  # fmt: skip


def lesson(item: Lesson, result: ResultDocument | None) -> ShownLesson:
    """One lesson. `passed` and `at` (seconds since the epoch) are null where it was never checked."""
    return {
        "number": item.number, "name": item.name, "title": item.title, "notebook": item.notebook,
        "minutes": item.minutes, "needs": list(item.needs), "passed": result.passed if result else None,
        "at": result.at if result else None,
    }  # fmt: skip


def collected(handed: Iterable[HandedIn]) -> ShownCollection:
    """Reports that were handed in, and what became of each."""
    return {
        "reports": [
            {
                "file": one.file, "person": one.person or None,
                "lessons": plain(one.lessons), "problems": [*one.problems],
            }
            for one in handed
        ]
    }  # fmt: skip
