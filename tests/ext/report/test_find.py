"""What a report is about, and everything about it: in the store, in a file, in a lab or without one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.api.base import plain
from lab.api.receipt import ReceiptDocument
from lab.cluster.submission import RESUMES
from lab.errors import LabDownError, LabError, NotFoundError, StoreError, UsageError
from lab.ext.report.find import find_subject, parse_receipt, read_evidence
from lab.ext.report.model import ReportEvidence, Subject
from lab.faults.records import FAULTS_PREFIX
from lab.flows.recovery.control import CONTROL_OF
from tests.ext.report import cases
from tests.unit.flows.world import JOB, W0, W1, Drill, Training

PREFIX = ".raylab/receipts"


def receipt(job: str = JOB, at: float = cases.AT) -> dict[str, Any]:
    shown: dict[str, Any] = plain(document(job, at))
    return shown


def document(job: str = JOB, at: float = cases.AT) -> ReceiptDocument:
    kill = cases.kill_receipt()
    return replace(kill, fault=replace(kill.fault, at=at), job=replace(kill.job, submission_id=job))


def keep(world: Drill, job: str, at: int) -> str:
    key = f"{PREFIX}/{job}-{at}.json"
    world.store.put(key, json.dumps(receipt(job, at)).encode())
    return key


@pytest.fixture
def trained(world: Drill) -> Drill:
    """A lab in which two jobs have trained, the second as the control run of the first."""
    for name, metadata in ((JOB, {}), ("control-1", {CONTROL_OF: JOB})):
        Training(world, epochs=4, job=name)
        while not world.jobs.get(name).final:
            world.clock.sleep(0.5)
        done = world.jobs.get(name)
        world.jobs.known[name] = type(done)(**{**done.__dict__, "metadata": metadata})
    return world


def test_the_newest_receipt_is_taken_where_nothing_is_named(trained: Drill) -> None:
    keep(trained, "zz", 1000)
    newest = keep(trained, JOB, 3000)
    keep(trained, JOB, 2000)
    trained.store.put(f"{PREFIX}/{JOB}-4000.usage.json", b"{}")
    assert find_subject(trained.lab).key == newest


@pytest.mark.parametrize("what", ["a-1-2000", "a-1-2000.json", f"{PREFIX}/a-1-2000.json"])
def test_a_receipt_is_found_by_its_name(world: Drill, what: str) -> None:
    keep(world, "a-1", 2000)
    keep(world, "a-1", 3000)
    subject = find_subject(world.lab, what)
    assert (subject.job, subject.key) == ("a-1", f"{PREFIX}/a-1-2000.json")


def test_a_job_stands_for_its_newest_receipt(world: Drill) -> None:
    for job, at in (("a", 2000), ("a", 3000), ("a-b", 4000)):
        keep(world, job, at)
    assert find_subject(world.lab, "a").key == f"{PREFIX}/a-3000.json"


def test_a_job_without_a_receipt_is_a_subject_of_its_own(trained: Drill) -> None:
    assert find_subject(trained.lab, "control-1") == Subject("control-1")


def test_what_is_unknown_is_refused_with_what_there_is(trained: Drill) -> None:
    keep(trained, JOB, 2000)
    with pytest.raises(NotFoundError, match="'nonsense'") as caught:
        find_subject(trained.lab, "nonsense")
    assert caught.value.hint == f"receipts: {JOB}-2000; jobs: {JOB}, control-1"


def test_a_lab_without_receipts_says_so(trained: Drill) -> None:
    with pytest.raises(NotFoundError, match="no receipt") as caught:
        find_subject(trained.lab)
    assert "name a job; receipts: none" in caught.value.hint


def test_a_file_is_read_without_asking_the_store(world: Drill, tmp_path: Path) -> None:
    world.store.failure = StoreError("gone")
    path = tmp_path / "receipt.json"
    path.write_text(json.dumps(receipt("x"), indent=2))
    assert find_subject(world.lab, str(path)) == Subject("x", document("x"))


def test_of_two_documents_in_a_file_the_last_is_the_receipt(tmp_path: Path) -> None:
    lines = json.dumps({"demo": {}}) + "\n" + json.dumps(receipt("x")) + "\n"
    assert parse_receipt(lines.encode(), "demo.json").job.submission_id == "x"


def test_a_file_that_is_not_there_is_not_taken_for_a_job(world: Drill, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"receipt\.json: No such file"):
        find_subject(world.lab, str(tmp_path / "receipt.json"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not a receipt: not JSON"),
        (b"\xff\xfe", "is not a receipt: not JSON"),
        (b"[1, 2]", "is not a receipt: not JSON"),
        (b'{"schema": "lesson-report/1"}', "its `schema` is 'lesson-report/1'"),
        (b"{}", "its `schema` is None"),
    ],
)
def test_what_is_no_receipt_is_refused_with_the_reason(data: bytes, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_receipt(data, "some.json")
    assert message in caught.value.message
    assert "some.json" in caught.value.message
    assert "labctl fault-inject" in caught.value.hint


def damaged(where: str, value: Any) -> dict[str, Any]:
    """The receipt with another value at a place such as `fault.at`."""
    whole = receipt()
    *parts, last = where.split(".")
    inner: Any = whole
    for part in parts:
        inner = inner[int(part) if part.isdigit() else part]
    inner[last] = value
    return whole


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        ("fault", {"kind": "kill"}, "fault.target is missing"),
        ("fault.at", "noon", "fault.at should be a valid number, not 'noon'"),
        ("fault.at", float("nan"), "Out of range float values are not JSON compliant"),
        ("fault.at", 10**400, "fault.at: not a date"),
        ("fault.reverted_at", 1e12, "fault.reverted_at: not a date"),
        ("timeline.node_dead", float("inf"), "Out of range float values are not JSON compliant"),
        ("timeline.node_dead", -1e11, "timeline.node_dead: not a date"),
        ("attempts", [{"attempt": 1}], r"attempts\[0\].nodes is missing"),
        ("attempts", None, "attempts should be a valid (array|tuple), not None"),
        ("attempts.1.ended_at", 1e11, r"attempts\[1\].ended_at: not a date"),
        ("checks.0.name", 1, r"checks\[0\].name should be a valid string, not 1"),
        ("world_size", [{"at": None, "ranks": 1}], r"world_size\[0\].at should be a valid number, not None"),
        ("job", "x", "job should be an object, not 'x'"),
        ("verdict", None, "verdict should be 'restarted-from-scratch', .* not None"),
    ],
)
def test_a_damaged_receipt_is_refused_with_the_place(where: str, value: Any, said: str) -> None:
    with pytest.raises(UsageError, match=f"^some.json is .* receipt: {said}"):
        parse_receipt(json.dumps(damaged(where, value)).encode(), "some.json")


def test_a_receipt_of_a_newer_labctl_may_say_more() -> None:
    older = receipt()
    check = {"name": "a question of tomorrow", "passed": True, "detail": ""}
    expected = {**older["expected"], "outcome": "moon-lost"}
    newer = {**older, "mood": "good", "expected": expected, "checks": [*older["checks"] * 2, check]}
    read = parse_receipt(json.dumps(newer).encode(), "some.json")
    assert (read.expected.outcome, read.checks[-1].name) == ("moon-lost", "a question of tomorrow")


def test_a_receipt_of_an_earlier_labctl_is_read_without_what_is_new() -> None:
    earlier = receipt()
    for name in ("lost_work", "patches", "preemption", "health", "survivors", "not_asked"):
        del earlier[name]
    del earlier["fault"]["effect"], earlier["fault"]["done_at"], earlier["checks"][0]["skipped"]
    assert parse_receipt(json.dumps(earlier).encode(), "some.json").lost_work is None


def test_everything_about_a_receipt_is_read(trained: Drill) -> None:
    keep(trained, JOB, 2000)
    evidence = read_evidence(trained.lab, find_subject(trained.lab, JOB))

    assert evidence.history is not None
    assert len(evidence.history.runs) == 1
    assert (evidence.control_job, evidence.lab, evidence.runtime) == ("control-1", "raylab", "fake")
    assert evidence.curves is not None
    assert evidence.workers == (W0, W1)
    assert set(evidence.services.values()) == {"ray-head", W0, W1}
    assert dict(evidence.settings)["nodes"] == "2 workers, each with 2 logical CPUs"
    assert evidence.missing == ()


def test_a_job_without_a_receipt_has_its_history_and_services(trained: Drill) -> None:
    evidence = read_evidence(trained.lab, Subject("control-1"))
    assert evidence.history is not None
    assert evidence.control_job == ""


def test_a_silent_cluster_leaves_curves_and_says_what_is_missing(trained: Drill) -> None:
    keep(trained, JOB, 2000)
    subject = find_subject(trained.lab, JOB)
    trained.api.silence()
    evidence = read_evidence(trained.lab, subject)
    assert evidence.history is not None
    assert evidence.services == {}
    assert any("Ray did not answer" in line for line in evidence.missing)


def test_a_receipt_of_another_lab_says_that_its_ledger_is_not_here(world: Drill) -> None:
    evidence = read_evidence(world.lab, Subject("elsewhere", document("elsewhere")))
    assert evidence.history is None
    assert any("no ledger of the job" in line for line in evidence.missing)
    assert evidence == ReportEvidence(evidence.subject, missing=evidence.missing), "nothing is of this lab"


def own(trained: Drill, later: float = 0.0) -> ReceiptDocument:
    """A receipt that tells what the ledger of the job tells, or of another lab's job with its name."""
    (run,) = trained.lab.history(JOB).runs
    first = document().attempts[0]
    attempts = tuple(
        replace(first, attempt=attempt.number, started_at=(attempt.started_at or 0.0) + later)
        for attempt in run.attempts
    )
    return replace(document(), run=run.name, attempts=attempts)


def test_a_file_is_of_this_lab_when_the_ledger_tells_the_same(trained: Drill) -> None:
    evidence = read_evidence(trained.lab, Subject(JOB, own(trained)))
    assert (evidence.lab, evidence.missing) == ("raylab", ())
    assert evidence.settings


def test_a_receipt_of_a_job_that_died_with_its_head_has_attempts_of_two_jobs(trained: Drill) -> None:
    mine = own(trained)
    further = replace(mine.attempts[0], attempt=9, started_at=9e8)
    mine = replace(mine, attempts=(*mine.attempts, further))
    job = trained.jobs.known.pop(JOB)
    trained.jobs.known["again"] = replace(job, submission_id="again", metadata={RESUMES: JOB})
    evidence = read_evidence(trained.lab, Subject(JOB, mine))
    assert (evidence.lab, evidence.missing, bool(evidence.settings)) == ("raylab", (), True)


@pytest.mark.parametrize("changes", [{"run": "another"}, {}])
def test_a_job_of_the_same_name_in_another_lab_is_not_this_one(
    trained: Drill, changes: dict[str, Any]
) -> None:
    foreign = replace(own(trained, 0.0 if changes else 5.0), **changes)
    evidence = read_evidence(trained.lab, Subject(JOB, foreign))
    assert (evidence.lab, evidence.history, evidence.settings, evidence.workers) == ("", None, (), ())


def test_settings_of_a_later_start_of_the_lab_are_not_shown(trained: Drill) -> None:
    keep(trained, JOB, 2000)
    trained.jobs.known.clear()
    evidence = read_evidence(trained.lab, find_subject(trained.lab, JOB))
    assert (evidence.lab, evidence.gpus, evidence.settings, evidence.workers) == ("raylab", "", (), ())
    assert any("belong to another start" in line for line in evidence.missing)


def test_a_lab_that_is_down_leaves_the_receipt_alone(world: Drill) -> None:
    world.runtime.down()
    evidence = read_evidence(world.lab, Subject("x", document("x")))
    assert evidence.history is None
    assert evidence.missing[0].startswith("the lab is down: curves")


@pytest.mark.parametrize("error", [LabDownError, LabError])
def test_a_job_of_a_lab_that_is_down_is_an_error(world: Drill, error: type[LabError]) -> None:
    world.runtime.down()
    with pytest.raises(error):
        read_evidence(world.lab, Subject("x"))


def test_the_faults_on_record_are_read_with_the_job(trained: Drill) -> None:
    entry = {"kind": "kill", "target": W0, "at": 5.0, "reverted_at": 9.0}
    trained.store.put(f"{FAULTS_PREFIX}/{JOB}/5000-{W0}.json", json.dumps(entry).encode())
    (fault,) = read_evidence(trained.lab, Subject(JOB)).faults
    assert (fault.kind, fault.at) == ("kill", 5.0)


def test_a_record_of_faults_that_cannot_be_read_is_missing(
    trained: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(store: object, job: str) -> tuple[()]:
        raise StoreError("denied")

    monkeypatch.setattr("lab.ext.report.find.recorded_faults", denied)
    evidence = read_evidence(trained.lab, Subject(JOB))
    assert evidence.faults == ()
    assert "the record of faults could not be read: denied" in evidence.missing
