"""The benchmark `recovery`: its cases, its stages, and runs on a machine that is too slow for them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import recovery
from benchmarks.compare import Found, LostError, Row, by_turns
from benchmarks.measure import say
from benchmarks.recovery import CASES, OURS, Case, Recovery, possible, stage_table, stages
from lab.errors import ServiceError
from lab.evidence.receipt.breakdown import Breakdown
from lab.ext.report.labels import PARTS


def breakdown(*seconds: float | None) -> Breakdown:
    return dict(zip(PARTS, seconds, strict=True))


GOOD = breakdown(1.0, 0.1, 0.0, 0.4, 0.5, 1.0, 0.4, 1.6)
KILL, STOP, PAUSE = (Case(name, name) for name in ("kill", "stop", "pause"))
EARLY = Case("kill early", "kill", early=True)


class FakeLab:
    """A lab whose cases go as a test says."""

    def __init__(self, *outcomes: Breakdown | Exception) -> None:
        self.outcomes = list(outcomes)
        self.repairs: list[str] = []
        self.repair_fails = 0
        self.submitted = 0
        self.ended: set[str] = set()
        self.ran: list[str] = []
        self.jobs = SimpleNamespace(get=self.get, stop=self.ended.add)

    def get(self, job: str) -> Any:
        return SimpleNamespace(final=job in self.ended)

    def submit_recipe(self, name: str, settings: dict[str, str]) -> Any:
        self.submitted += 1
        return SimpleNamespace(submission_id=f"job-{self.submitted}")

    def up(self, spec: Any) -> Any:
        self.repairs.append(spec.name)
        if self.repair_fails:
            self.repair_fails -= 1
            raise ServiceError("ray-worker-0 ended while starting")
        return SimpleNamespace(healthy=True)

    def once(self, lab: Any, job: str, case: Case) -> Breakdown:
        self.ran.append(job)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def measured(monkeypatch: pytest.MonkeyPatch, lab: FakeLab, *cases: Case) -> Found:
    """One round of these cases in this lab."""

    @contextlib.contextmanager
    def own_lab(*names: object, **options: object) -> Iterator[FakeLab]:
        yield lab

    monkeypatch.setattr(recovery, "own_lab", own_lab)
    monkeypatch.setattr(recovery, "once", lab.once)
    monkeypatch.setattr(recovery, "whole", lambda lab: True)
    turn = recovery.one_round(cases, "fake", OURS, {})
    return by_turns({"recovery": {OURS: turn}}, 1, say)


def known(results: Found) -> list[str]:
    return list(dict.fromkeys(figure.partition(":")[0] for figure in results.figures))


@pytest.mark.parametrize(
    "error", [ServiceError("ray-worker-0 failed.\nIts last lines"), LostError("no sign of the new epoch")]
)
def test_a_case_that_is_lost_is_told_and_the_next_one_begins_in_a_whole_lab(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    lab = FakeLab(GOOD, error, GOOD)
    lab.repair_fails = 1
    results = measured(monkeypatch, lab, KILL, STOP, PAUSE)
    assert known(results) == ["kill", "pause"]
    assert [loss["step"] for loss in results.lost] == ["stop: fault to first new epoch"]
    assert lab.repairs == ["bench-lab"] * 2
    assert lab.submitted == 1, "its job goes on"


def test_a_job_that_ended_with_the_case_is_submitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = FakeLab(LostError("job job-1: FAILED"), GOOD)
    lab.ended.add("job-1")
    assert known(measured(monkeypatch, lab, KILL, STOP)) == ["stop"]
    assert lab.ran == ["job-1", "job-2"]


def test_a_lab_that_cannot_be_repaired_keeps_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = FakeLab(GOOD, LostError("no sign of it"), GOOD)
    lab.repair_fails = 100
    results = measured(monkeypatch, lab, KILL, STOP, PAUSE)
    assert known(results) == ["kill"]
    assert [loss["reason"] for loss in results.lost] == [
        "no sign of it",
        "the lab could not be repaired, 3 times",
    ]


def test_an_early_fault_comes_to_a_job_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = FakeLab(GOOD, GOOD, GOOD)
    measured(monkeypatch, lab, KILL, STOP, EARLY)
    assert lab.ran == ["job-1", "job-1", "job-2"]
    assert lab.ended == {"job-1"}


def test_the_step_comes_before_the_report_and_an_unknown_one_has_no_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unknown = breakdown(1.0, 0.25, 0.5, 2.0, 4.0, 0.5, None, 1.0)
    results = measured(monkeypatch, FakeLab(GOOD, unknown), KILL, STOP)
    assert {figure: results.of(OURS, figure)[0] for figure in results.figures} == {
        "kill: fault to first new step": pytest.approx(3.4),
        "kill: fault to first new epoch": pytest.approx(5.0),
        "stop: fault to first new epoch": pytest.approx(9.25),
    }


def recovery_of(detect: float | None, report: float) -> Breakdown:
    return breakdown(detect, 1.0, None, None, 2.0, None, None, report)


def test_stages_are_medians_of_the_recoveries_that_know_them() -> None:
    assert stages([recovery_of(1.0, 4.0), recovery_of(None, 6.0), recovery_of(3.0, 9.0)]) == {
        "detect": 2.0,
        "decide": 1.0,
        "import": 2.0,
        "report": 6.0,
    }
    assert stages([]) == {}


def test_the_stages_of_both_sides_are_lines_of_one_table() -> None:
    row = Recovery("stop: fault to first new epoch", (9.0,), "stock Ray", stages={"detect": 1.0})
    head, _, ours, stock = stage_table([row, Row("other", (1.0,))]).splitlines()
    assert ours.startswith("| stop | 1.00 |")
    assert stock.startswith("| stop, stock Ray |  |")
    assert head.count("|") == ours.count("|") == stock.count("|")


def test_an_early_fault_comes_with_the_first_checkpoint() -> None:
    assert {case.reports for case in CASES if case.early} == {1}
    assert {case.reports for case in CASES if not case.early} == {3}
    assert {case.ranks for case in CASES if case.early} == {1, 2}


def test_a_partition_needs_containers() -> None:
    assert set(possible("compose")) - set(possible("local")) == {"partition", "two-worker partition"}
    assert len({case.name for case in CASES}) == len(CASES)
