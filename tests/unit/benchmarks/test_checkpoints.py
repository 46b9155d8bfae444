"""What the benchmark `checkpoints` makes of a job's output."""

from __future__ import annotations

import pytest

from benchmarks import checkpoints
from benchmarks.compare import LostError, spread

LOG = """2026-11-22 09:00:00,000 INFO worker.py -- Connecting
{"step": 3}
{"with": [2.06, 4.04, 1.01], "without": [2.0, 4.0, 1.0]}
"""


def test_the_cost_is_that_of_each_pair_and_of_all_turns_together() -> None:
    steps, pairs, whole, error = checkpoints.rows(LOG, 2)
    assert steps.median == 2060
    assert steps.peer_values == (2000, 4000, 1000)
    assert steps.paired == pytest.approx(1 / 1.01)
    assert pairs.values == pytest.approx((3, 1, 1))
    assert whole.values == pytest.approx((100 * 0.11 / 7,))
    assert error.values == pytest.approx(((4 / 3) ** 0.5 / 3**0.5,))  # of 3, 1, 1 about their mean
    assert spread(pairs.values, pairs.unit) == "1.0 % (1.0-3.0, 3)"


@pytest.mark.parametrize("log", ["", "Traceback\n", '{"with": [1.0]}\n', "[1]\n"])
def test_a_job_without_figures_is_lost(log: str) -> None:
    with pytest.raises(LostError, match="printed no figures"):
        checkpoints.rows(log, 1)
