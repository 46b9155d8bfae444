"""Reports of a class: what counts, what is only claimed, and what is refused with its line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.cluster.jobs import EARLIER, Job
from lab.errors import NotFoundError
from lab.ext.course.documents import ReportDocument, signed
from lab.ext.course.lessons.handed_in import HandedIn, collect, merged
from lab.ext.course.lessons.results import dump, make_report
from lab.people.progress import CLAIMED, FAILED, PASSED, Progress, Standing
from tests.ext.course.lessons.test_results import result
from tests.ext.course.lessons.world import AT

PLAIN, TRAIN = "ann-lesson-02-plain-20260726-100000", "lesson-04-train-20260726-101500"
STARTED = AT + 0.123


@dataclass
class Known:
    """A lab that knows these jobs."""

    jobs: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, Any] = field(default_factory=dict)

    def job(self, name: str) -> Any:
        if name not in self.jobs:
            raise NotFoundError(f"there is no job {name}")
        return self.jobs[name]

    def history(self, name: str) -> Any:
        return SimpleNamespace(runs=self.runs.get(name, ()))


def job(status: str = "SUCCEEDED", started_at: float = STARTED) -> Job:
    return Job("", status, "", "", started_at, None, "", None, {})


def run(error: str | None = None, finished_at: float | None = AT) -> tuple[Any, ...]:
    return (SimpleNamespace(error=error, finished_at=finished_at),)


@pytest.fixture
def lab() -> Known:
    return Known({PLAIN: job(), TRAIN: job()}, {TRAIN: run()})


@pytest.fixture
def place(tmp_path: Path) -> Callable[..., Any]:
    """Hands reports in; gives what became of each file."""

    def hand_in(lab: Known, **files: ReportDocument | str) -> dict[str, HandedIn]:
        for name, content in files.items():
            text = content if isinstance(content, str) else dump(content) + "\n"
            (tmp_path / f"{name}.json").write_text(text)
        anything: Any = lab
        return {one.file.removesuffix(".json"): one for one in collect(anything, tmp_path, ("ann", "ben"))}

    return hand_in


def report(student: str = "ann", jobs: dict[int, tuple[str, ...]] | None = None) -> ReportDocument:
    named = {2: (PLAIN,), 4: (TRAIN,)} if jobs is None else jobs
    return make_report(
        {number: result(number, jobs=names).document for number, names in named.items()}, student, AT
    )


def states(one: HandedIn) -> dict[int, str]:
    return {lesson.lesson: lesson.state for lesson in one.lessons}


def test_a_report_that_the_lab_confirms_counts(lab: Known, place: Any) -> None:
    handed = place(lab, a=report())["a"]
    assert (handed.person, handed.problems) == ("ann", ())
    assert states(handed) == {2: PASSED, 4: PASSED}


def test_a_file_may_name_the_person(lab: Known, place: Any) -> None:
    assert place(lab, ann=report("Ada Lovelace"))["ann"].person == "ann"
    assert place(lab, ada=report("Ada Lovelace"))["ada"].problems == (
        "line 3: nobody in the class is called Ada Lovelace: name the file NAME.json",
    )


def test_what_the_lab_has_no_trace_of_is_claimed(lab: Known, place: Any) -> None:
    lab.jobs.clear()
    handed = place(lab, a=report(jobs={1: (), 2: (PLAIN,)}))["a"]
    assert (states(handed), handed.problems) == ({1: CLAIMED, 2: CLAIMED}, ())
    assert handed.lessons[0].reason == "it names no job"
    assert handed.lessons[1].reason == f"the lab has no trace of job {PLAIN}"


def test_a_lesson_that_was_not_passed_is_not(lab: Known, place: Any) -> None:
    document = make_report({2: result(2, jobs=(PLAIN,), good=False).document}, "ann", AT)
    assert states(place(lab, a=document)["a"]) == {2: FAILED}


def test_the_ledger_of_a_job_that_ray_forgot_confirms_it(lab: Known, place: Any) -> None:
    lab.jobs[TRAIN] = job(EARLIER)
    assert states(place(lab, a=report())["a"])[4] == PASSED
    lab.runs[TRAIN] = run(finished_at=None)
    assert states(place(lab, a=report())["a"])[4] == CLAIMED


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({PLAIN: job("FAILED")}, f"job {PLAIN} is FAILED; the report says SUCCEEDED"),
        ({PLAIN: job(started_at=AT + 60)}, f"job {PLAIN} began at another time than the report says"),
    ],
)
def test_what_the_lab_contradicts_is_refused_with_its_line(
    lab: Known, place: Any, change: dict[str, Job], problem: str
) -> None:
    lab.jobs |= change
    document = report()
    handed = place(lab, a=document)["a"]
    lines = (dump(document)).splitlines()
    (said,) = handed.problems
    line, _, words = said.partition(": ")
    assert (words, handed.lessons) == (problem, ())
    assert PLAIN in lines[int(line.removeprefix("line ")) - 1]


def test_a_ledger_that_says_failed_is_believed(lab: Known, place: Any) -> None:
    lab.runs[TRAIN] = run("boom")
    assert "failed, by its ledger" in place(lab, a=report())["a"].problems[0]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("ben-lesson-02-plain-1", "is ben's"),
        ("lesson-05-two-1", "is no job of lesson 2"),
        ("x", "is no job of"),
    ],
)
def test_a_job_of_another_person_or_lesson_is_refused(
    lab: Known, place: Any, name: str, problem: str
) -> None:
    assert problem in place(lab, a=report(jobs={2: (name,)}))["a"].problems[0]


def test_an_edited_report_is_refused_with_the_line_of_its_result(lab: Known, place: Any) -> None:
    document = make_report({2: result(2, jobs=(PLAIN,), good=False).document}, "ann", AT)
    text = dump(document)
    edited = text.replace('"passed": false', '"passed": true')
    handed = place(lab, a=edited)["a"]
    assert handed.lessons == ()
    line = text.splitlines().index('   "lesson": 2,') + 1
    assert f"line {line}: the result of lesson 2 was changed after it was checked" in handed.problems[1]
    assert handed.problems[0].startswith("line 1: the report was changed")
    assert states(place(lab, ann=report())["ann"]) == {2: PASSED, 4: PASSED}, "an edited copy does no harm"
    assert place(lab, a="{")["a"].problems[0].startswith("line 1: ")


def test_a_report_that_was_signed_anew_still_needs_jobs_of_the_lab(lab: Known, place: Any) -> None:
    document = report(jobs={2: ("ann-lesson-02-plain-20990101-000000",)})
    forged = signed(replace(document, at=AT + 5))
    assert states(place(lab, a=forged)["a"]) == {2: CLAIMED}


def test_jobs_that_two_reports_name_are_claimed(lab: Known, place: Any) -> None:
    handed = place(lab, ann=report(jobs={4: (TRAIN,)}), ben=report("ben", jobs={4: (TRAIN,)}))
    assert [states(one) for one in handed.values()] == [{4: CLAIMED}, {4: CLAIMED}]
    stolen = place(lab, ann=report(jobs={2: (PLAIN,)}), ben=report("ben", jobs={2: (PLAIN,)}))
    assert (states(stolen["ann"]), "is ann's" in stolen["ben"].problems[0]) == ({2: PASSED}, True)
    twice = place(lab, ann=report(), other=report(), ben=report("ben", jobs={1: ()}))
    assert "2 reports are ann's" in twice["other"].problems[0]
    assert twice["ben"].problems == ()


def test_a_folder_without_reports(lab: Known, place: Any) -> None:
    with pytest.raises(NotFoundError, match=r"has no file \*\.json"):
        place(lab)


def test_what_was_known_of_a_refused_report_stays() -> None:
    old, new = (Standing(2, PASSED, AT),), (Standing(4, PASSED, AT),)
    before = Progress(people={"ann": old, "ben": old, "gone": old})
    handed = (HandedIn("a", "ann", new, ()), HandedIn("b", "ben", (), ("line 1: edited",)))
    after = merged(before, handed, ("ann", "ben"), AT)
    assert after.people == {"ann": new, "ben": old}
    assert (after.lessons[0], after.collected_at) == (0, AT)
