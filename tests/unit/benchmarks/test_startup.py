"""What the benchmark `up` reads out of the log of a job with actors."""

from __future__ import annotations

import pytest

from benchmarks.compare import LostError
from benchmarks.startup import actor_figures

LOG = """2026-11-22 09:00:00,000 INFO worker.py -- Connecting
{"start": 1.0, "imports": 5.0, "both": 6.5}
{broken
{"start": 3.0, "imports": 7.0, "both": 10.5}
"""


def test_the_figures_of_a_job_are_the_medians_of_its_actors() -> None:
    assert actor_figures(LOG) == {"start": 2.0, "imports": 6.0, "both": 8.5}


@pytest.mark.parametrize("log", ["", "Traceback\n", '{"start": 1.0}\n'])
def test_a_job_without_figures_is_lost(log: str) -> None:
    with pytest.raises(LostError, match="printed no figures"):
        actor_figures(log)
