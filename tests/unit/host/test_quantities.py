"""Durations and counted nouns."""

from __future__ import annotations

import pytest

from lab.host.quantities import parse_duration, plural


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("2m", 120.0),
        (".5h", 1800.0),
        ("7", 7.0),
        ("-1s", -1.0),
        ("1e9", None),
        ("1s2s", None),
    ],
)
def test_a_duration_is_understood_or_is_none(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("number", "shown"), [(0, "0 epochs"), (1, "1 epoch"), (1_234_567, "1234567 epochs"), (2.5, "2.5 epochs")]
)
def test_a_noun_is_counted(number: float, shown: str) -> None:
    assert plural(number, "epoch") == shown
