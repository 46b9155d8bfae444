"""What the benchmark `start` reads out of a job's log, and how long it waits for a quiet machine."""

from __future__ import annotations

import pytest

from benchmarks import start
from benchmarks.compare import LostError

LOG = """2026-11-22 09:00:00,000 INFO worker.py -- Connecting
{"start": 1.0, "imports": 5.0, "both": 6.5}
{broken
{"start": 3.0, "imports": 7.0, "both": 10.5}
"""


def test_the_figures_of_a_job_are_the_medians_of_its_actors() -> None:
    assert start.parse(LOG) == {"start": 2.0, "imports": 6.0, "both": 8.5}


@pytest.mark.parametrize("log", ["", "Traceback\n", '{"start": 1.0}\n'])
def test_a_job_without_figures_is_lost(log: str) -> None:
    with pytest.raises(LostError, match="printed no figures"):
        start.parse(log)


@pytest.mark.parametrize(("busy", "quiet"), [([90.0, 60.0, 5.0], True), ([90.0] * 200, False)])
def test_it_waits_for_a_quiet_machine_but_not_for_ever(busy: list[float], quiet: bool) -> None:
    now = [0.0]

    def look() -> float:
        now[0] += start.LOOK_SECONDS
        return busy.pop(0)

    assert start.settle(look, lambda: now[0]) is quiet
