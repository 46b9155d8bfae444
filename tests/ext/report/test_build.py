"""What a report tells: rows, bars, curves and words from evidence, and nothing that is not in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.api.receipt import JobDocument, Verdict
from lab.evidence.ledger import History
from lab.ext.report.build import build_report
from lab.ext.report.model import ReportData, ReportEvidence, Subject
from lab.faults.records import LoggedFault
from tests.ext.report import cases
from tests.unit.data.stories import real


@pytest.fixture(scope="module")
def full() -> ReportData:
    return build_report(cases.full())


def test_the_moments_are_in_the_order_of_time_with_the_fault_first(full: ReportData) -> None:
    known = [(m.key, m.seconds) for m in full.moments]
    assert known[0] == ("fault", 0.0)
    assert [seconds for _, seconds in known] == sorted(s for _, s in known if s is not None)
    assert {"node_dead", "first_report", "reverted", "node_rejoined"} <= {key for key, _ in known}
    assert all(m.label and m.meaning for m in full.moments)


def test_what_did_not_happen_is_told_last_and_without_a_time() -> None:
    evidence = cases.from_file()
    timeline = replace(cases.receipt_of(evidence).timeline, node_rejoined=None)
    moments = build_report(cases.with_receipt(evidence, timeline=timeline)).moments
    assert (moments[-1].key, moments[-1].seconds) == ("node_rejoined", None)


def test_a_bar_ends_with_the_fault_where_the_node_was_lost(full: ReportData) -> None:
    first, second = full.bars
    assert (first.service, first.attempt, first.end) == ("ray-worker-0", 1, 0.0)
    assert first.begin < 0
    assert (second.service, second.attempt) == ("ray-worker-1", 2)
    assert second.begin == pytest.approx(0.83, abs=0.01)
    assert len(second.reports) == 14
    assert full.services == ("ray-worker-0", "ray-worker-1")


def test_the_node_is_down_from_the_fault_until_it_is_back(full: ReportData) -> None:
    assert full.down is not None
    assert (full.down.service, full.down.begin, full.down.end, full.down.lost) == ("ray-worker-0", 0, 4, True)


def test_a_fault_of_the_store_takes_no_node_down() -> None:
    evidence = cases.from_file()
    fault = replace(cases.receipt_of(evidence).fault, target="minio", kind="s3-down")
    data = build_report(cases.with_receipt(evidence, fault=fault))
    assert data.down is None
    assert "minio" not in data.services


def test_the_curves_are_those_of_the_attempts_with_the_control_run(full: ReportData) -> None:
    assert [metric.name for metric in full.metrics] == ["loss", "val_loss", "val_accuracy"]
    loss = full.metrics[0]
    assert [(line.attempt, line.points[0][0], line.points[-1][0]) for line in loss.lines] == [
        (1, 1, 6),
        (2, 7, 20),
    ]
    assert len(loss.control) == 20
    assert full.fault_epoch == 6
    assert full.repeated is None
    assert full.curves is not None
    assert full.curves.exact


def test_ranks_share_a_service_and_epochs_done_twice_are_known() -> None:
    data = build_report(cases.two_ranks())
    assert [(b.service, b.attempt, b.rank) for b in data.bars] == [
        ("ray-worker-0", 1, 0),
        ("ray-worker-1", 1, 1),
        ("ray-worker-1", 2, 0),
        ("ray-worker-1", 2, 1),
    ]
    assert data.repeated == (2, 3)
    survivor = data.bars[1]
    assert survivor.end > 0


def test_a_receipt_alone_gives_attempts_but_no_curves() -> None:
    data = build_report(cases.from_file())
    assert [(b.service, b.attempt) for b in data.bars] == [("ray-worker-0", 1), ("ray-worker-1", 2)]
    assert (data.metrics, data.curves, data.environment) == ((), None, ())
    assert data.missing == ("the lab is down: curves are missing",)


def test_a_job_without_a_fault_counts_from_its_start() -> None:
    data = build_report(cases.undisturbed())
    assert (data.verdict, data.fault, data.moments, data.down, data.fault_epoch) == ("", None, (), None, None)
    assert [bar.begin for bar in data.bars] == [0.0]
    assert "without a fault" in data.title


def test_a_job_with_a_fault_on_record_but_no_receipt_is_said_to_be_that() -> None:
    known = (LoggedFault("kill", "ray-worker-0", cases.AT, cases.AT + 3),)
    data = build_report(cases.full(subject=Subject("k3"), faults=known))
    assert data.title == "Training with a fault that was not judged"
    assert data.reason == "kill of ray-worker-0 is on record"


def test_an_attempt_that_the_receipts_fault_explains_is_no_riddle(full: ReportData) -> None:
    assert full.missing == ()


def test_an_attempt_that_no_fault_explains_is_told_beside_a_receipt() -> None:
    evidence = cases.full()
    fault = replace(cases.receipt_of(evidence).fault, at=cases.AT + 9, reverted_at=cases.AT + 10)
    data = build_report(cases.with_receipt(evidence, fault=fault))
    assert data.missing == ("attempt 1 was lost after epoch 6 without a recorded fault",)


def test_the_breakdown_is_in_its_order_and_holds_known_stages_only() -> None:
    breakdown = {"load": 0.5, "detect": 1.0, "place": None, "total": 9.0}
    data = build_report(cases.with_receipt(cases.full(), breakdown=breakdown))
    assert [(part.key, part.seconds) for part in data.parts] == [("detect", 1.0), ("load", 0.5)]


def test_metrics_that_count_or_hold_times_are_no_curves() -> None:
    story = cases.two_ranks()
    events = [
        replace(e, fields={"metrics": {"epoch": 1, "step": 7, "time_total_s": 3.0, "lr": 0.1, "note": "x"}})
        for e in real("ledger_kill")
        if e.event == "report"
    ]
    data = build_report(replace(story, subject=Subject("k3"), history=History.of(events)))
    assert [metric.name for metric in data.metrics] == ["lr"]


def test_the_environment_names_versions_and_size(full: ReportData) -> None:
    environment = dict(full.environment)
    assert environment["Ray"] == "2.60.0"
    assert environment["PyTorch"] == "2.13.0"
    assert environment["memory of the machine"] == "8.0 GiB"
    assert environment["lab"] == "raylab"


def test_no_evidence_at_all_is_told_without_failing() -> None:
    data = build_report(ReportEvidence(Subject("job-1"), history=History.of(())))
    assert (data.bars, data.metrics, data.moments) == ((), (), ())


def test_a_failed_verdict_on_a_job_that_failed_says_that_it_did_not_recover() -> None:
    went_on = cases.with_receipt(cases.from_file(), verdict=Verdict.FAILED)
    assert build_report(went_on).title.startswith("Training went on, but")
    failed = cases.with_receipt(went_on, job=JobDocument("k3", "FAILED", None))
    assert build_report(failed).title == "Training did not recover"


def test_of_a_traceback_the_first_and_the_last_line_are_kept() -> None:
    data = build_report(
        replace(cases.from_file(), missing=("it ended.\n  File x\n    return y\nTimeoutError: z\n",))
    )
    assert data.missing == ("it ended. … TimeoutError: z",)
