"""The curves of two runs: which epochs count, what is equal, and where they first differ."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lab.api.receipt import CurvesDocument
from lab.evidence.ledger import History
from lab.evidence.receipt import compare_curves
from tests.unit.data.stories import Story, event


def history(*reports: dict[str, Any], attempts: tuple[int, ...] = ()) -> History:
    """A run that reported these, each in the attempt of the same place, by default in the first."""
    return History.of(
        event("report", place, (attempts or (1,) * len(reports))[place], 0, metrics=metrics)
        for place, metrics in enumerate(reports)
    )


def losses(*values: Any) -> History:
    return history(*({"epoch": n, "loss": value} for n, value in enumerate(values, 1)))


def compare(a: History, b: History, tolerance: float = 0.0) -> CurvesDocument:
    return compare_curves(a, b, tolerance)


def test_the_same_values_are_equal_bit_for_bit() -> None:
    curves = compare(losses(0.5, 0.25, 0.1), losses(0.5, 0.25, 0.1))
    assert curves.equal
    assert curves.exact
    assert curves.detail == "1 metric over 3 epochs: equal bit for bit"


def test_one_bit_makes_a_difference_unless_a_tolerance_is_stated() -> None:
    other = math.nextafter(0.25, 1)
    curves = compare(losses(0.5, 0.25, 0.1), losses(0.5, other, 0.1))
    assert curves.equal is False
    assert curves.first is not None
    assert (curves.first.metric, curves.first.epoch) == ("loss", 2)

    within = compare(losses(0.5, 0.25, 0.1), losses(0.5, other, 0.1), 1e-6)
    assert within.equal
    assert not within.exact
    assert "equal within the tolerance of 1e-06" in within.detail


def test_the_first_epoch_that_differs_and_the_greatest_difference_are_named() -> None:
    curves = compare(losses(1.0, 1.0, 1.0, 4.0), losses(1.0, 1.01, 2.0, 4.04))
    assert curves.first is not None
    assert (curves.first.epoch, round(curves.first.relative or 0, 4)) == (2, 0.0099)
    said = "loss differs from epoch 2 on; the greatest relative difference is 0.5 (loss, epoch 3)"
    assert said in curves.detail


def test_of_an_epoch_that_was_done_twice_the_later_report_counts() -> None:
    again = history(
        *({"epoch": n, "loss": v} for n, v in ((1, 0.9), (2, 0.8), (3, 7.7), (3, 0.7))), attempts=(1, 1, 1, 2)
    )
    assert compare(again, losses(0.9, 0.8, 0.7)).exact


def test_an_epoch_that_one_run_lacks_makes_them_different() -> None:
    curves = compare(losses(0.9, 0.8, 0.7), losses(0.9, 0.8))
    assert curves.equal is False
    assert "epoch 3 was reported by one of the runs only" in curves.detail


@pytest.mark.parametrize(
    "name", ["time_total_s", "epoch_seconds", "images_per_sec", "timestamp", "pid", "sent_bytes"]
)
def test_metrics_that_hold_times_are_left_out(name: str) -> None:
    a, b = ({"epoch": 1, "loss": 1.0, name: value} for value in (1.5, 2.5))
    assert compare(history(a), history(b)).exact


@pytest.mark.parametrize("name", ["loss", "val_accuracy", "mean_squared_error", "sometimes"])
def test_other_metrics_count(name: str) -> None:
    a, b = ({"epoch": 1, name: value} for value in (1.5, 2.5))
    assert compare(history(a), history(b)).equal is False


def test_not_a_number_is_equal_to_itself_only() -> None:
    assert compare(losses(0.5, "nan"), losses(0.5, "nan")).exact
    curves = compare(losses(0.5, "nan"), losses(0.5, 0.4), 0.5)
    assert curves.equal is False
    assert curves.first is not None
    assert curves.first.relative is None
    assert curves.metrics["loss"][1] == (2, None, 0.4)


@pytest.mark.parametrize("empty", [History.of(()), history({"epoch": 1, "note": "words"})])
def test_without_a_shared_metric_nothing_is_claimed(empty: History) -> None:
    curves = compare(losses(0.5), empty)
    assert curves.equal is None
    assert not curves.exact


def test_a_story_without_metrics_but_its_epochs_is_not_called_equal() -> None:
    history = History.of(Story().events())
    assert compare(history, history).equal is None
