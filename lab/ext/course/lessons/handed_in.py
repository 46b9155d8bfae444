"""Reports that a class handed in, checked against the lab: its jobs, their ledgers, and whose they are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.cluster.jobs import Job
from lab.errors import NotFoundError, UsageError
from lab.ext.course.documents import JobRecord, ReportDocument, ResultDocument
from lab.ext.course.lessons.catalogue import numbers
from lab.ext.course.lessons.model import job_prefix
from lab.ext.course.lessons.report import read_report, shown, verify
from lab.people.progress import CLAIMED, FAILED, PASSED, Progress, Standing

if TYPE_CHECKING:
    from lab.lab import Lab

SAME_SECONDS = 0.002
"""Difference of two records of one start: each is rounded to the millisecond."""

MOST_FILES = 1000


@dataclass(frozen=True)
class HandedIn:
    """One file, and what became of it."""

    file: str
    person: str
    """The person of the class whose report it is; empty where that is not known."""
    lessons: tuple[Standing, ...]
    problems: tuple[str, ...]
    """Reasons for which it is refused, each with its line; none for a report that counts."""


def collect(lab: Lab, folder: Path, people: Collection[str]) -> tuple[HandedIn, ...]:
    """Read the reports (`*.json`) of a folder and check each against the lab. Nothing is changed.

    Raises NotFoundError where there is none, UsageError for too many, LabDownError, ClusterError, StoreError.
    """
    files = sorted(folder.glob("*.json"))
    if not files:
        raise NotFoundError(f"{folder} has no file *.json", "`labctl lesson report --output FILE` writes one")
    if len(files) > MOST_FILES:
        raise UsageError(f"{folder} has {len(files)} files; {MOST_FILES} are the most")
    collected = [_Report(lab, file, people) for file in files]
    shared = Counter(job for one in collected if one.intact for job in one.jobs)
    persons = Counter(one.person for one in collected if one.intact)
    return tuple(one.judged(shared, persons) for one in collected)


def merged(before: Progress, handed: Sequence[HandedIn], people: Collection[str], at: float) -> Progress:
    """The progress of a class with these reports: of a refused one, what was known before stays."""
    known = {name: lessons for name, lessons in before.people.items() if name in people}
    known |= {one.person: one.lessons for one in handed if not one.problems}
    return Progress(collected_at=at, lessons=numbers(), people=dict(sorted(known.items())))


class _Report:
    """One file that was handed in."""

    def __init__(self, lab: Lab, file: Path, people: Collection[str]) -> None:
        self._lab, self._file, self._people = lab, file, people
        self._text, self.person = "", ""
        self._report: ReportDocument | None = None
        try:
            self._report = read_report(file)
            self._text = file.read_text(encoding="utf-8")
            self._problems = list(self._contradictions(self._report))
        except (UsageError, NotFoundError, OSError, ValueError) as error:
            self._problems = [f"line 1: {getattr(error, 'message', error)}"]

    @property
    def intact(self) -> bool:
        """True for a report of somebody of the class that is as labctl wrote it."""
        return not self._problems

    @property
    def jobs(self) -> set[str]:
        """Ids of the jobs that it names."""
        results = self._report.results if self._report else ()
        return {job.submission_id for result in results for job in result.jobs}

    def judged(self, shared: Mapping[str, int], persons: Mapping[str, int]) -> HandedIn:
        """The lessons of the report. `shared` counts reports by job, `persons` by person."""
        problems, lessons = list(self._problems), list[Standing]()
        if self.intact and persons[self.person] > 1:
            problems.append(
                f"line 1: {persons[self.person]} reports are {self.person}'s; keep the latest one"
            )
        for result in self._report.results if self._report and not problems else ():
            standing, contradictions = self._standing(result, shared)
            lessons.append(standing)
            problems += contradictions
        return HandedIn(self._file.name, self.person, () if problems else tuple(lessons), tuple(problems))

    def _contradictions(self, report: ReportDocument) -> Iterator[str]:
        """Reasons in the report itself, and in its name: each with the line."""
        for problem in verify(report):
            lesson = re.search(r"lesson (\d+)", problem)
            yield self._at("lesson", lesson[1], problem) if lesson else f"line 1: {problem}"
        names = (report.student.lower(), self._file.stem.lower())
        self.person = next((name for name in names if name in self._people), "")
        if not self.person:
            said = shown(report.student)
            yield self._at("student", "", f"nobody in the class is called {said}: name the file NAME.json")

    def _at(self, field: str, value: str, problem: str) -> str:
        """A problem with the line in which this field has this value, or is at all."""
        pattern = rf'"{field}"\s*:\s*"?{re.escape(value)}' + (r"\b" if value else "")
        match = re.search(pattern, self._text)
        return f"line {self._text.count(chr(10), 0, match.start()) + 1 if match else 1}: {problem}"

    def _standing(self, result: ResultDocument, shared: Mapping[str, int]) -> tuple[Standing, list[str]]:
        """One lesson, and what the lab says against it."""
        contradictions, unknown = [], [] if result.jobs else ["it names no job"]
        for record in result.jobs:
            name = record.submission_id
            job, against = self._checked(record, result.lesson)
            if against:
                contradictions.append(self._at("submission_id", name, f"job {shown(name)} {against}"))
            elif job is None:
                unknown.append(f"the lab has no trace of job {shown(name)}")
            elif shared[name] > 1 and not name.startswith(f"{self.person}-"):
                unknown.append(f"job {shown(name)} is in another report, too")
        state = FAILED if not result.passed else CLAIMED if unknown else PASSED
        standing = Standing(result.lesson, state, result.at, "; ".join(unknown[:3]) if result.passed else "")
        return standing, contradictions

    def _checked(self, record: JobRecord, lesson: int) -> tuple[Job | None, str]:
        """The job as the lab knows it, or None; and what the lab says against the record."""
        name, owner = record.submission_id, record.submission_id.partition("-")[0]
        if owner in self._people and owner != self.person:
            return None, f"is {owner}'s"
        if not name.removeprefix(f"{self.person}-").startswith(job_prefix(lesson)):
            return None, f"is no job of lesson {lesson}"
        try:
            job = self._lab.job(name)
        except NotFoundError:
            return None, ""
        runs = self._lab.history(name).runs
        if record.status == "SUCCEEDED" and runs and runs[-1].error:
            return job, "failed, by its ledger; the report says SUCCEEDED"
        if job.earlier:
            return job if runs and runs[-1].finished_at is not None else None, ""
        if job.status != record.status and job.final:
            return job, f"is {job.status}; the report says {record.status}"
        began = None not in (job.started_at, record.started_at)
        if began and abs((job.started_at or 0) - (record.started_at or 0)) > SAME_SECONDS:
            return job, "began at another time than the report says"
        return job, ""
