"""The benchmark `recovery`: its cases, its stages, and runs that are lost."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from benchmarks import recovery
from benchmarks.compare import Found, LostError, Row, by_turns
from benchmarks.measure import OURS, say
from benchmarks.recovery import CASES, Case, Recovery, stage_table, stages
from lab.ext.report.labels import PARTS


def breakdown(*seconds: float | None) -> dict[str, float | None]:
    return dict(zip(PARTS, seconds, strict=True))


GOOD = breakdown(1.0, 0.1, 0.0, 0.4, 0.5, 1.0, 0.4, 1.6)
KILL, STOP, PAUSE = (Case(name, name) for name in ("kill", "stop", "pause"))


class FakeLab:
    """A lab whose faults go as a test says."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.ups = 0
        self.broken = False

    def up(self, workers: int) -> None:
        self.ups += 1
        if self.broken:
            raise LostError("exit code 7: no memory")

    def submit(self, recipe: str, settings: dict[str, str]) -> str:
        return "job"

    def call(self, words: Sequence[str]) -> tuple[float, dict[str, Any]]:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return 1.0, {"breakdown": outcome}


def measured(monkeypatch: pytest.MonkeyPatch, lab: FakeLab, *cases: Case) -> Found:
    """One round of these cases in this lab."""

    @contextlib.contextmanager
    def cli_lab(*options: str) -> Iterator[FakeLab]:
        yield lab

    monkeypatch.setattr(recovery, "cli_lab", cli_lab)
    return by_turns("recovery", {OURS: recovery.one_round(cases, OURS, {})}, 1, say)


def test_a_case_that_is_lost_is_told_and_the_next_one_begins_in_a_whole_lab(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = FakeLab(GOOD, LostError("exit code 10: not recovered"), GOOD)
    results = measured(monkeypatch, lab, KILL, STOP, PAUSE)
    assert {figure: results.of(OURS, figure)[0] for figure in results.figures} == {
        "kill: fault to first new step": pytest.approx(3.4),
        "kill: fault to first new epoch": pytest.approx(5.0),
        "pause: fault to first new step": pytest.approx(3.4),
        "pause: fault to first new epoch": pytest.approx(5.0),
    }
    assert [loss["step"] for loss in results.lost] == ["stop: fault to first new epoch"]
    assert lab.ups == 2


def test_a_lab_that_cannot_be_repaired_keeps_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    class Breaks(FakeLab):
        def call(self, words: Sequence[str]) -> tuple[float, dict[str, Any]]:
            self.broken = len(self.outcomes) < 2
            return super().call(words)

    results = measured(monkeypatch, Breaks(GOOD, LostError("no sign of it")), KILL, STOP, PAUSE)
    assert len(results.figures) == 2
    assert [loss["reason"] for loss in results.lost] == ["no sign of it", "exit code 7: no memory"]


def recovery_of(detect: float | None, report: float) -> dict[str, float | None]:
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


def test_no_two_cases_have_one_name() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
