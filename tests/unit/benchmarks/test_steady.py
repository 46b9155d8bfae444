"""What the benchmark `steady` makes of the steps in a ledger."""

from __future__ import annotations

import pytest

from benchmarks import steady
from benchmarks.compare import LostError, Row
from lab.evidence.ledger import RecordedSteps, Stretch


def test_the_first_steps_do_not_count() -> None:
    slow = tuple(float(second) for second in range(20))
    fast = tuple(19 + 0.01 * number for number in range(1, 81))
    steps = RecordedSteps((Stretch(0, 1, slow + fast, 2), Stretch(1, 1, slow, 2)))
    assert steady.milliseconds(steps) == pytest.approx(10)


@pytest.mark.parametrize("steps", [RecordedSteps(), RecordedSteps((Stretch(0, 1, (1.0,), 2),))])
def test_a_training_without_steps_is_lost(steps: RecordedSteps) -> None:
    with pytest.raises(LostError, match="no steps"):
        steady.milliseconds(steps)


def test_the_cost_is_that_of_each_pair() -> None:
    cost = steady.cost(Row("step", (11.0, 9.0), "plain DDP", (10.0, 10.0), (10 / 11, 10 / 9), "ms"))
    assert (cost.what, cost.unit) == ("cost, step", "%")
    assert cost.values == pytest.approx((10, -10))


def test_a_way_has_a_row_by_its_name_and_one_with_its_cost_and_none_unmeasured() -> None:
    row = Row("step", (11.0,), "plain DDP", (10.0,), (10 / 11,), "ms")
    shown = steady.costed("memory", row)
    assert [(r.what, r.unit) for r in shown] == [("step, memory", "ms"), ("cost, step, memory", "%")]
    assert shown[1].median == pytest.approx(10)
    assert steady.costed("memory", Row("step", (), "plain DDP", (10.0,))) == []
