"""What benchmarks make of their runs: turns, losses, medians, ratios, tables."""

from __future__ import annotations

import pytest

from benchmarks.compare import Figures, Found, LostError, Measure, Row, by_turns, reason, rows, spread, table
from lab.errors import ClusterError


def silent(text: str) -> None:
    """Progress that nobody reads."""


class Bench:
    """Sides whose runs are written down; one fails where it is told to."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.said: list[str] = []
        self.failing: dict[str, BaseException] = {}

    def measure(self, side: str, *values: float) -> Measure:
        left = iter(values)

        def run() -> Figures:
            self.ran.append(side)
            yield "first", next(left)
            if side in self.failing:
                raise self.failing.pop(side)
            yield "second", 10.0

        return run

    def turns(self, runs: int, **sides: Measure) -> Found:
        return by_turns("step", sides, runs, self.said.append)


def test_the_sides_are_measured_by_turns() -> None:
    bench = Bench()
    results = bench.turns(2, a=bench.measure("a", 1.0, 2.0), b=bench.measure("b", 3.0, 4.0))
    assert bench.ran == ["a", "b", "a", "b"]
    assert results.of("a", "first") == {0: 1.0, 1: 2.0}
    assert results.of("b", "first") == {0: 3.0, 1: 4.0}
    assert results.figures == ("first", "second")
    assert results.lost == []


def test_an_interrupt_keeps_the_figures_until_then() -> None:
    bench = Bench()
    bench.failing["b"] = KeyboardInterrupt()
    results = bench.turns(2, a=bench.measure("a", 1.0), b=bench.measure("b", 3.0))
    assert bench.ran == ["a", "b"]
    assert results.of("a", "second") == {0: 10.0}
    assert results.of("b", "first") == {0: 3.0}
    assert "interrupted" in bench.said[-1]


def test_a_run_that_fails_is_lost_with_its_reason_and_the_others_go_on() -> None:
    bench = Bench()
    bench.failing["a"] = LostError("no sign of life")
    results = bench.turns(2, a=bench.measure("a", 1.0, 2.0), b=bench.measure("b", 3.0, 4.0))
    assert bench.ran == ["a", "b", "a", "b"]
    assert results.lost == [{"round": 1, "side": "a", "step": "step", "reason": "no sign of life"}]
    assert results.of("a", "first") == {0: 1.0, 1: 2.0}, "what was known before stays"
    assert results.of("a", "second") == {1: 10.0}


def test_a_figure_can_be_lost_without_those_that_follow() -> None:
    def measure() -> Figures:
        yield "kill", LostError("too slow")
        yield "stop", 2.0

    results = by_turns("recovery", {"a": measure}, 1, silent)
    assert results.of("a", "stop") == {0: 2.0}
    assert results.lost == [{"round": 1, "side": "a", "step": "kill", "reason": "too slow"}]


def test_what_a_person_interrupts_is_no_lost_run_and_takes_its_lab_down() -> None:
    taken_down = []

    def measure() -> Figures:
        try:
            yield "first", 1.0
        finally:
            taken_down.append("lab")

    def say(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        by_turns("step", {"a": measure}, 1, say)
    assert caught.tb is not None
    assert taken_down == ["lab"]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (LostError("job x FAILED"), "job x FAILED"),
        (ClusterError("Ray is silent", "wait"), "ClusterError: Ray is silent"),
        (ValueError("one\ntwo"), "ValueError: one"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_a_reason_is_one_line(error: Exception, text: str) -> None:
    assert reason(error) == text


def test_ratios_are_of_medians_and_of_the_rounds_in_which_both_are_known() -> None:
    results = Found()
    results.values = {("we", "up"): {0: 1.0, 1: 2.0, 2: 4.0}, ("they", "up"): {1: 6.0, 2: 4.0}}
    (row,) = rows(results, "we", "they")
    assert (row.median, row.ratio) == (2.0, 2.5)
    assert row.pairs == (3.0, 1.0)
    assert row.paired == 2.0
    assert row.document()["paired_ratio"] == 2.0


def test_a_side_alone_has_a_row_too() -> None:
    results = Found({("we", "up"): {0: 1.0}, ("stock", "up"): {0: 2.0}})
    assert [(row.peer, row.ratio) for row in rows(results, "we", "stock")] == [("stock", 2.0)]
    assert [(row.what, row.peer, row.ratio) for row in rows(results, "we")] == [("up", "", None)]


def test_a_figure_that_only_the_peer_has_is_no_division_by_nothing() -> None:
    (row,) = rows(Found({("they", "up"): {0: 3.0}}), "we", "they")
    assert (row.median, row.ratio, row.paired) == (None, None, None)
    assert "| up | none | they | 3.00 s (3.00-3.00, 1) |  |  |" in table([row])


def test_the_table_is_markdown_with_what_was_lost_below() -> None:
    lost = [{"round": 2, "side": "we", "step": "kill", "reason": "too slow"}]
    text = table([Row("up", (1.0, 3.0), "they", (8.0,), (8.0,))], lost)
    head, rule, line, _, below = text.splitlines()
    assert head.count("|") == rule.count("|") == line.count("|") == 7
    assert line == "| up | 2.00 s (1.00-3.00, 2) | they | 8.00 s (8.00-8.00, 1) | 4.0x | 8.0x |"
    assert below == "lost: round 2, we, kill: too slow"


def test_megabytes_are_whole() -> None:
    assert spread((1000.4, 2000.4), "MB") == "1500 MB (1000-2000, 2)"
