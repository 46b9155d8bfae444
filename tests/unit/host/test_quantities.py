"""Durations and counted nouns."""

from __future__ import annotations

import pytest

from lab.errors import UsageError
from lab.host.quantities import format_duration, parse_duration, plural


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("30s", 30.0), ("5m", 300.0), ("1h", 3600.0), ("500ms", 0.5), (".5", 0.5), ("-2s", -2.0)],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "1 s", "s", "1d", "--2s", "1e3", "nan", "30S"])
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.66, "0.7 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min"),
        (125.4, "2 min 5 s"),
        (3600.0, "1 h"),
        (10_920.0, "3 h 2 min"),
        (86_400.0, "24 h"),
    ],
)
def test_a_duration_is_written(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "shown"), [(0, "0 epochs"), (1, "1 epoch"), (1_234_567, "1234567 epochs"), (2.5, "2.5 epochs")]
)
def test_a_noun_is_counted(number: float, shown: str) -> None:
    assert plural(number, "epoch") == shown
