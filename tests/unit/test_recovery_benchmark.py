"""The recovery benchmark on a machine that is too slow for a run: the run is lost, not the benchmark."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import recovery
from benchmarks.recovery import CASES, LostError, measure, stage_table
from lab.errors import LabError, ServiceError
from lab.receipt.breakdown import Breakdown

KILL = CASES[0]
GOOD = Breakdown(1.0, 0.1, 0.0, 0.4, 0.5, 1.0, 2.0)


class FakeLab:
    """A lab whose runs go as a test says."""

    def __init__(self, outcomes: list[Breakdown | Exception]) -> None:
        self.outcomes = outcomes
        self.repairs: list[str] = []
        self.repair_fails = 0
        self.submitted = 0
        self.ended: set[str] = set()
        self.ran: list[str] = []
        self.jobs = SimpleNamespace(get=self.get, stop=lambda job: None)

    def get(self, job: str) -> Any:
        return SimpleNamespace(final=job in self.ended)

    def submit_workload(self, name: str, settings: dict[str, str]) -> Any:
        self.submitted += 1
        return SimpleNamespace(submission_id=f"job-{self.submitted}")

    def up(self, spec: Any) -> Any:
        self.repairs.append(spec.name)
        if self.repair_fails:
            self.repair_fails -= 1
            raise ServiceError("ray-worker-0 ended while starting")
        return SimpleNamespace(healthy=True)

    def once(self, lab: Any, job: str, kind: str, settle: float) -> Breakdown:
        self.ran.append(job)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def measured(monkeypatch: pytest.MonkeyPatch, lab: FakeLab, runs: int) -> recovery.Measured:
    @contextlib.contextmanager
    def own_lab(*names: object, **options: object) -> Iterator[FakeLab]:
        yield lab

    monkeypatch.setattr(recovery, "own_lab", own_lab)
    monkeypatch.setattr(recovery, "once", lab.once)
    return measure([KILL], runs, "fake", stock_ray=False)[KILL]


@pytest.mark.parametrize(
    "error",
    [ServiceError("ray-worker-0 failed.\nIts last lines"), LostError("no sign of the new epoch")],
)
def test_a_run_that_is_lost_is_told_and_the_next_one_begins_in_a_whole_lab(
    monkeypatch: pytest.MonkeyPatch, error: LabError | LostError
) -> None:
    lab = FakeLab([GOOD, error, GOOD])
    lab.repair_fails = 1

    result = measured(monkeypatch, lab, 3)

    assert result.found == [GOOD, GOOD]
    assert result.lost == [str(error).splitlines()[0]]
    assert lab.repairs == ["bench-tuned"] * 2
    assert lab.submitted == 1, "its job goes on"


def test_a_job_that_ended_with_the_run_is_submitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = FakeLab([LostError("job job-1: FAILED"), GOOD])
    lab.ended.add("job-1")
    assert measured(monkeypatch, lab, 2).found == [GOOD]
    assert lab.ran == ["job-1", "job-2"]


def test_a_lab_that_cannot_be_repaired_keeps_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = FakeLab([GOOD, LostError("no sign of it"), GOOD])
    lab.repair_fails = 100
    assert measured(monkeypatch, lab, 3).found == [GOOD]


def test_the_lost_runs_stand_below_the_table() -> None:
    row = recovery.Recovery("kill: total", (5.0,), "stock", (50.0,), lost=("stock: no sign of it",))
    assert stage_table([row]).endswith("\n\nlost: kill: stock: no sign of it")
