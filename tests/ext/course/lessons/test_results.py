"""Results and reports: their form, their digests, what is kept where, what does not fit."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.api.base import Plain, parse
from lab.errors import NotFoundError, RefusedError, UsageError
from lab.ext.course.documents import ReportDocument, ResultDocument, Versions, digest, signed, written
from lab.ext.course.lessons.catalogue import find_lesson
from lab.ext.course.lessons.model import Evidence, LessonResult, check, job_record
from lab.ext.course.lessons.results import (
    copies,
    in_store,
    judge,
    keep_in_store,
    keep_on_host,
    make_report,
    newest,
    on_host,
    read_report,
    store_key,
    table,
    verify,
)
from lab.topology import Check, GpuPlan, LabStatus, Vendor
from tests.ext.course.lessons.world import AT, job
from tests.fakes.store import FakeObjectStore


def result(
    lesson: int = 2,
    *,
    good: bool = True,
    at: float = AT,
    jobs: tuple[str, ...] = ("j-1",),
    started_at: float | None = AT + 0.123,
) -> LessonResult:
    known = find_lesson(lesson)
    others = len(known.checks) + len(known.checks_after_down) - 2
    frame = ResultDocument(
        schema="lesson-result/1",
        lesson=lesson,
        name=known.name,
        title=known.title,
        student="",
        lab="raylab",
        runtime="local",
        gpu="simulated",
        versions=Versions("0.1.0", "2.60.0"),
        at=at,
        passed=False,
        checks=(),
        measured={"seconds": 12.5},
        jobs=tuple(job_record(job(name, started_at=started_at)) for name in jobs),
    )
    checks = (
        Check("first", "passed", "1 of 1"),
        Check("second", "passed", "ü") if good else Check("second", "failed", "0", "do it"),
        *(Check("another", "passed", "yes") for _ in range(others)),
    )
    return LessonResult.of(frame, checks, at)


def report() -> ReportDocument:
    results = {2: result().document, 3: result(3, good=False, jobs=("j-2",)).document}
    return make_report(results, "Ada Lovelace", AT)


def sign(document: Plain) -> Plain:
    """The result as an edit that knows of digests leaves it."""
    return written(signed(parse(ResultDocument, document, "the result")))


def look_at(document: Plain) -> tuple[str, ...]:
    """What is wrong with a report that was handed in."""
    try:
        return verify(parse(ReportDocument, document, "the report"))
    except UsageError as misfit:
        return (misfit.message,)


def test_a_result_and_a_report_come_back_as_they_were_written() -> None:
    kept = result().document
    assert parse(ResultDocument, json.loads(json.dumps(written(kept))), "the result") == kept
    assert parse(ReportDocument, json.loads(json.dumps(written(report()))), "the report") == report()


def test_the_results_json_is_a_contract() -> None:
    document = result().to_json()
    digest_given = document.pop("sha256")
    assert document == {
        "schema": "lesson-result/1",
        "lesson": 2,
        "name": "a-job",
        "title": "A job",
        "student": "",
        "lab": "raylab",
        "runtime": "local",
        "gpu": "simulated",
        "versions": {"raylab": "0.1.0", "ray": "2.60.0"},
        "at": AT,
        "passed": True,
        "checks": [
            {"name": "first", "passed": True, "detail": "1 of 1"},
            {"name": "second", "passed": True, "detail": "ü"},
            {"name": "another", "passed": True, "detail": "yes"},
        ],
        "measured": {"seconds": 12.5},
        "jobs": [{"submission_id": "j-1", "status": "SUCCEEDED", "started_at": AT + 0.123}],
    }
    assert digest_given == "c27108f3f1d1618cf33abd4a9c8d59178218a0ce3f49167d4b2201685de6e247"


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    document = result().document
    turned = dict(reversed(written(document).items()))
    assert digest(parse(ResultDocument, turned, "the result")) == document.sha256
    assert digest(replace(document, passed=False)) != document.sha256


def test_a_result_without_checks_has_not_passed() -> None:
    assert not LessonResult.of(result().document, (), AT).passed


def test_a_check_that_cannot_read_what_was_recorded_has_failed() -> None:
    @check("odd seconds")
    def odd_seconds(evidence: Evidence) -> str:
        return f"{evidence.records['seconds'] + 1}"

    answer = odd_seconds(Evidence(2, records={"seconds": "12"}))
    assert (answer.name, answer.outcome) == ("odd seconds", "failed")
    assert "TypeError" in answer.detail


def test_a_notebook_in_a_container_is_checked_on_the_compose_runtime() -> None:
    lesson = find_lesson(2)
    for kind, runtime in (("inside", "compose"), ("local", "local")):
        status = LabStatus("raylab", kind, True, (), GpuPlan(Vendor.SIMULATED))
        judged = judge(lesson, Evidence(2, status=status), at=AT)
        assert (judged.document.runtime, judged.document.gpu) == (runtime, "simulated")


def test_the_table_says_what_to_do_where_a_check_failed() -> None:
    lines = table(find_lesson(2), result(good=False))
    assert lines[0].startswith("Lesson 2, A job: not passed yet (2 of 3 checks), 20")
    assert [line.strip() for line in lines[1:]] == [
        "ok    first    1 of 1",
        "FAIL  second   0",
        "-> do it",
        "ok    another  yes",
    ]


# Kept


def test_results_are_kept_on_the_host_and_in_the_store(tmp_path: Path) -> None:
    store = FakeObjectStore()
    keep_on_host(tmp_path / "lessons", result().document)
    keep_in_store(store, result(3))
    assert on_host(tmp_path / "lessons") == {2: result().document}
    assert in_store(store) == {3: result(3).document}


def test_a_lesson_that_was_passed_stays_passed(tmp_path: Path) -> None:
    store = FakeObjectStore()
    for attempt in (result(good=False), result(at=AT + 1), result(good=False, at=AT + 2)):
        keep_on_host(tmp_path, attempt.document)
        keep_in_store(store, attempt)
    assert on_host(tmp_path) == in_store(store) == {2: result(at=AT + 1).document}
    keep_on_host(tmp_path, result(at=AT + 3).document)
    assert on_host(tmp_path)[2].at == AT + 3


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "lesson-result/1", "lesson": 2}'])
def test_a_damaged_result_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "lesson-02.json").write_text(text)
    edited = {**result(3, good=False).to_json(), "passed": True}
    (tmp_path / "lesson-03.json").write_text(json.dumps(edited))
    assert on_host(tmp_path) == {}


def test_what_a_student_put_into_the_store_counts_only_if_it_has_the_form_of_a_result() -> None:
    store = FakeObjectStore()
    kept = result().to_json()
    deep = '{"x": ' * 100_000 + "1" + "}" * 100_000
    without_time = {key: value for key, value in kept.items() if key != "at"}
    for text in (deep, json.dumps(without_time), json.dumps({**kept, "title": "\ud800"}), "[]"):
        store.put(store_key(2), text.encode())
        assert in_store(store) == {}
    store.put(store_key(2), json.dumps(kept).encode())
    assert in_store(store) == {2: result().document}


def test_of_two_results_the_one_that_passed_counts_then_the_newer() -> None:
    old_good, new_bad = result(at=AT).document, result(good=False, at=AT + 9).document
    newer_good = result(at=AT + 5).document
    assert newest({2: old_good}, {2: new_bad}) == {2: old_good}
    assert newest({2: old_good}, {2: newer_good}) == newest({2: newer_good}, {2: old_good}) == {2: newer_good}
    assert list(newest({3: result(3).document}, {2: old_good})) == [2, 3]


# Reports


def test_a_report_names_the_student_everywhere_and_what_is_missing() -> None:
    document = report()
    assert (document.student, document.passed) == ("Ada Lovelace", (2,))
    assert {1, 9} <= set(document.missing)
    assert [result.student for result in document.results] == ["Ada Lovelace"] * 2
    assert verify(document) == ()


@pytest.mark.parametrize("student", ["", "  ", "x" * 101, "a\x07b"])
def test_a_name_that_is_none_is_refused(student: str) -> None:
    with pytest.raises(UsageError):
        make_report({2: result().document}, student, AT)


def test_a_report_without_any_result_is_refused() -> None:
    with pytest.raises(RefusedError):
        make_report({}, "Ada", AT)


def _failed_becomes_passed(document: dict[str, Any]) -> None:
    document["results"][1]["checks"][1]["passed"] = True


def _fewer_checks(document: dict[str, Any]) -> None:
    kept = document["results"][0]
    document["results"][0] = sign({**kept, "checks": kept["checks"][:2]})


def _odd_name(document: dict[str, Any]) -> None:
    document["student"] = "Ada\n/x/charles.json: Charles; passed: 1\x1b[2J"


def _half_a_character(document: dict[str, Any]) -> None:
    document["results"][0]["title"] = "\ud800"


def _deep(document: dict[str, Any]) -> None:
    inner: dict[str, Any] = {}
    document["results"][0]["measured"] = inner
    for _ in range(100_000):
        inner["x"] = inner = {}


def _unknown(document: dict[str, Any]) -> None:
    document["results"][0] = sign({**document["results"][0], "lesson": 77})


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda document: document.update(student="Charles"), "changed after it was written"),
        (_failed_becomes_passed, "result of lesson 3 was changed"),
        (_unknown, "lesson 77 is unknown"),
        (_fewer_checks, "lesson 2 has 2 checks, not 3"),
        (_odd_name, r"name is not one: 'Ada\n/x/charles.json: Charles; passed: 1\x1b[2J'"),
        (lambda document: document.update(student="x" * 101), "name is not one"),
        (_half_a_character, "Invalid JSON"),
        (_deep, "recursion"),
        (lambda document: document.pop("results"), "the report: results is missing"),
        (
            lambda document: document.update(schema="lesson-report/9"),
            "schema should be 'lesson-report/1', not 'lesson-report/9'",
        ),
        (lambda document: document.update(grade="A"), "grade is unknown"),
        (
            lambda document: document["results"][0].update(lesson="2"),
            "results[0].lesson should be a valid integer, not '2'",
        ),
        (
            lambda document: document["results"][0].update(lesson=True),
            "results[0].lesson should be a valid integer, not True",
        ),
        (
            lambda document: document["results"][0].update(lesson=99),
            "lesson 99 is unknown here",
        ),
        (lambda document: document.update(sha256="x"), "changed after it was written"),
        (lambda document: document.update(student=""), "the student's name is not one"),
    ],
)
def test_what_was_edited_does_not_fit(edit: Callable[[dict[str, Any]], object], words: str) -> None:
    document = copy.deepcopy(written(report()))
    edit(document)
    lines = look_at(document)
    assert any(words in line for line in lines), lines
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("document", [None, [], "text", 5])
def test_what_is_no_object_is_no_report(document: Any) -> None:
    assert look_at(document) == (f"the report: should be an object, not {document!r}",)


def handed_in(student: str, *results: LessonResult) -> ReportDocument:
    return make_report({result.document.lesson: result.document for result in results}, student, AT)


def test_two_students_with_the_same_jobs_are_noticed() -> None:
    ada, charles = report(), handed_in("Charles", result(), result(3, good=False, jobs=("j-2",)))
    assert copies({"ada.json": ada, "charles.json": charles}) == (
        "lesson 2 in charles.json has the jobs of Ada Lovelace's in ada.json",
        "lesson 3 in charles.json has the jobs of Ada Lovelace's in ada.json",
    )
    assert copies({"ada.json": ada, "again.json": ada}) == ()


@pytest.mark.parametrize(
    "others",
    [
        (result(started_at=AT + 0.124), result(3, jobs=("j-2",), started_at=AT + 0.5)),  # in the same second
        (result(), result(3, jobs=("j-3",))),  # one job alone
        (result(started_at=None), result(3, jobs=("j-2",), started_at=None)),  # Ray did not say when
    ],
)
def test_students_whose_jobs_have_the_same_names_are_not_accused(others: tuple[LessonResult, ...]) -> None:
    ada = handed_in("Ada", result(), result(3, jobs=("j-2",)))
    unknown = handed_in("Ada", result(started_at=None), result(3, jobs=("j-2",), started_at=None))
    charles = handed_in("Charles", *others)
    assert verify(charles) == ()
    assert copies({"ada.json": ada, "charles.json": charles}) == ()
    assert copies({"unknown.json": unknown, "charles.json": charles}) == ()


def test_files_that_are_no_reports_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_report(tmp_path / "none.json")
    with pytest.raises(NotFoundError):
        read_report(tmp_path)
    for content in (b"", b"{", b"\xff\xfe{}", b"[" * 100_000):
        (tmp_path / "bad.json").write_bytes(content)
        with pytest.raises(UsageError):
            read_report(tmp_path / "bad.json")
