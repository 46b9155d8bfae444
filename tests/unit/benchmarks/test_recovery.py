"""The cases of the benchmark `recovery`, and the stages it tells."""

from __future__ import annotations

from benchmarks.compare import Row
from benchmarks.recovery import CASES, Recovery, possible, stage_table, stages
from lab.receipt.breakdown import Breakdown


def found(detect: float | None, first_step: float) -> Breakdown:
    return Breakdown(detect, 1.0, None, None, 2.0, None, first_step)


def test_stages_are_medians_of_the_recoveries_that_know_them() -> None:
    assert stages([found(1.0, 4.0), found(None, 6.0), found(3.0, 9.0)]) == {
        "detect": 2.0,
        "decide": 1.0,
        "import": 2.0,
        "first_step": 6.0,
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
