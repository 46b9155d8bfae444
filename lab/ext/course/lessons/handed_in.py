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
from lab.ext.course.lessons.results import read_report, shown, verify
from lab.people.progress import CLAIMED, FAILED, PASSED, Progress, Standing

if TYPE_CHECKING:
    from lab.lab import Lab

SAME_SECONDS = 0.002
"""Difference of two records of one start: each is rounded to the millisecond."""


@dataclass(frozen=True)
class HandedIn:
    """One file that was handed in, and what became of it."""

    file: str
    person: str | None
    """The person of the class whose report it is; None where that is not known."""
    lessons: tuple[Standing, ...]
    problems: tuple[str, ...]
    """Reasons for which it is refused, each with its line; none for a report that counts."""


def collect(lab: Lab, folder: Path, people: Collection[str]) -> tuple[HandedIn, ...]:
    """Read the reports (`*.json`) of a folder and check each against the lab. Nothing is changed.

    Raises NotFoundError where there is none, LabDownError, ClusterError, StoreError.
    """
    files = sorted(folder.glob("*.json"))
    if not files:
        raise NotFoundError(f"{folder} has no file *.json", "`labctl lesson report --output FILE` writes one")
    handed = [_read(file, people) for file in files]
    intact = [one for one in handed if not one.problems]
    shared = Counter(job for one in intact for job in one.jobs)
    persons = Counter(one.person for one in intact)
    return tuple(_judged(lab, one, people, shared, persons[one.person]) for one in handed)


def merged(before: Progress, handed: Sequence[HandedIn], people: Collection[str], at: float) -> Progress:
    """The progress of a class with these reports: of a refused one, what was known before stays."""
    known = {name: lessons for name, lessons in before.people.items() if name in people}
    known |= {one.person: one.lessons for one in handed if one.person and not one.problems}
    return Progress(collected_at=at, lessons=numbers(), people=dict(sorted(known.items())))


@dataclass(frozen=True)
class _Report:
    """One file that was handed in, before the lab is asked."""

    file: str
    text: str = ""
    person: str = ""
    """The person of the class whose report it is; empty where that is not known."""
    results: tuple[ResultDocument, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def jobs(self) -> set[str]:
        """Ids of the jobs that it names."""
        return {job.submission_id for result in self.results for job in result.jobs}


def _read(file: Path, people: Collection[str]) -> _Report:
    try:
        report, text = read_report(file), file.read_text(encoding="utf-8")
    except (UsageError, NotFoundError, OSError, ValueError) as error:
        return _Report(file.name, problems=(f"line 1: {getattr(error, 'message', error)}",))
    names = (report.student.lower(), file.stem.lower())
    person = next((name for name in names if name in people), "")
    problems = tuple(_contradictions(report, text, person))
    return _Report(file.name, text, person, report.results, problems)


def _contradictions(report: ReportDocument, text: str, person: str) -> Iterator[str]:
    """Reasons in the report itself, and in its name: each with the line."""
    for problem in verify(report):
        lesson = re.search(r"lesson (\d+)", problem)
        yield _at(text, "lesson", lesson[1], problem) if lesson else f"line 1: {problem}"
    if not person:
        said = shown(report.student)
        yield _at(text, "student", "", f"nobody in the class is called {said}: name the file NAME.json")


def _at(text: str, field: str, value: str, problem: str) -> str:
    """A problem with the line in which this field has this value, or is at all."""
    pattern = rf'"{field}"\s*:\s*"?{re.escape(value)}' + (r"\b" if value else "")
    match = re.search(pattern, text)
    return f"line {text.count(chr(10), 0, match.start()) + 1 if match else 1}: {problem}"


def _judged(
    lab: Lab, one: _Report, people: Collection[str], shared: Mapping[str, int], reports: int
) -> HandedIn:
    """What the lab says of a report. `shared` counts reports by job, `reports` are that person's."""
    problems, lessons = list(one.problems), list[Standing]()
    if not problems and reports > 1:
        problems.append(f"line 1: {reports} reports are {one.person}'s; keep the latest one")
    for result in one.results if not problems else ():
        unknown = [] if result.jobs else ["it names no job"]
        for record in result.jobs:
            name = record.submission_id
            job, against = _checked(lab, record, result.lesson, one.person, people)
            if against:
                problems.append(_at(one.text, "submission_id", name, f"job {shown(name)} {against}"))
            elif job is None:
                unknown.append(f"the lab has no trace of job {shown(name)}")
            elif shared[name] > 1 and not name.startswith(f"{one.person}-"):
                unknown.append(f"job {shown(name)} is in another report, too")
        state = FAILED if not result.passed else CLAIMED if unknown else PASSED
        reason = "; ".join(unknown[:3]) if result.passed else ""
        lessons.append(Standing(result.lesson, state, result.at, reason))
    return HandedIn(one.file, one.person or None, () if problems else tuple(lessons), tuple(problems))


def _checked(
    lab: Lab, record: JobRecord, lesson: int, person: str, people: Collection[str]
) -> tuple[Job | None, str]:
    """The job as the lab knows it, or None; and what the lab says against the record."""
    name, owner = record.submission_id, record.submission_id.partition("-")[0]
    if owner in people and owner != person:
        return None, f"is {owner}'s"
    if not name.removeprefix(f"{person}-").startswith(job_prefix(lesson)):
        return None, f"is no job of lesson {lesson}"
    try:
        job = lab.job(name)
    except NotFoundError:
        return None, ""
    runs = lab.history(name).runs
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
