"""Curves of growth: their order, their table, and the training whose ledger is measured."""

from __future__ import annotations

import pytest

from benchmarks import growth
from benchmarks.compare import LostError
from benchmarks.growth import Curve, Curves, run, table
from benchmarks.growth.stored import JOB, objects_of, training
from lab.flows.recovery.outside import judge_from_ledger
from lab.topology import BUCKET
from tests.fakes.store import FakeObjectStore


@pytest.mark.parametrize(
    ("points", "order"),
    [
        (((10, 1.0), (100, 10.0), (1000, 1000.0)), 2.0),
        (((10, 5.0), (100, 5.0)), 0.0),
        (((10, 5.0),), None),
    ],
)
def test_the_order_is_that_of_the_two_largest_sizes(
    points: tuple[tuple[int, float], ...], order: float | None
) -> None:
    assert Curve("x", "objects", "s", points).order == (None if order is None else pytest.approx(order))


def test_a_table_has_the_sizes_beside_each_other_and_one_for_each_row_of_sizes() -> None:
    curves = Curves("objects")
    for count, seconds in ((1_000, 0.123), (10_000, 12.3)):
        curves.add(count, "list all", "s", seconds)
    curves.add(5, "start", "ms", 7.0)
    first, second = table(curves.made()).split("\n\n")
    assert first.splitlines() == [
        "| objects | 1,000 | 10,000 | order |",
        "| --- | --- | --- | --- |",
        "| list all | 0.12 s | 12 s | 2.0 |",
    ]
    assert second.splitlines()[-1] == "| start | 7 ms |  |"


@pytest.mark.parametrize("each_reports", [True, False])
def test_the_training_whose_ledger_is_measured_recovered(each_reports: bool) -> None:
    store = FakeObjectStore()
    for name, data in objects_of(training(60, each_reports=each_reports)).items():
        store.put(name, data)
    receipt = judge_from_ledger(store, f"s3://{BUCKET}", JOB)
    assert receipt.verdict.value == "recovered", receipt.reason


def test_a_part_that_is_none_is_refused() -> None:
    with pytest.raises(SystemExit, match="nonsense"):
        run(["nonsense"])


@pytest.mark.parametrize(
    ("error", "after"), [(LostError("no more memory"), ["up", "list"]), (KeyboardInterrupt(), ["up"])]
)
def test_what_was_measured_before_an_error_is_kept(
    error: BaseException, after: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nodes(curves: Curves) -> None:
        curves.add(2, "up", "s", 3.0)
        raise error

    def objects(curves: Curves) -> None:
        curves.add(1_000, "list", "s", 0.1)

    monkeypatch.setattr(
        growth, "parts", lambda: {"nodes": ("workers", nodes), "objects": ("objects", objects)}
    )
    assert [curve.what for curve in run(())] == after
