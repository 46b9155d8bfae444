"""At which epoch an armed fault acts."""

from __future__ import annotations

import json

import pytest

from lab.evidence.ledger import Run, parse_events
from lab.evidence.ledger.history import History
from lab.ext.chaos.run import next_epoch


def run(key: str, *values: float) -> Run:
    """A run that has reported these."""
    common = {"schema": "ledger/1", "event": "report", "job": "j", "run": "r", "attempt": 1, "rank": 0}
    lines = [json.dumps({**common, "at": n, "metrics": {key: value}}) for n, value in enumerate(values)]
    return History.of(parse_events(lines)).runs[0]


@pytest.mark.parametrize(
    ("given", "pace", "epoch"),
    [
        (None, None, 4),
        (run("epoch", 1, 2, 3), None, 7),
        (run("epoch", 1, 2, 3), 60.0, 7),
        (run("epoch", 1, 2, 3), 0.5, 19),
        (run("step", 100, 200, 300), 60.0, 700),
        (run("step", 100, 200, 300), 0.5, 1900),
        (run("epoch", 0.25, 0.5, 0.75), 60.0, 2),
    ],
)
def test_an_epoch_is_some_reports_ahead_in_the_runs_own_count(
    given: Run | None, pace: float | None, epoch: float
) -> None:
    assert next_epoch(given, pace) == epoch
