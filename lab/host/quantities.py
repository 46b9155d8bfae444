"""Quantities as people write and read them: durations, counted nouns."""

from __future__ import annotations

import re

from lab.errors import UsageError

UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Seconds of `500ms`, `10s`, `2m`, `1h`, or a plain number of seconds; it may be negative.

    Raises UsageError for any other text.
    """
    match = re.fullmatch(r"(-?(?:\d+(?:\.\d*)?|\.\d+))(ms|s|m|h|)", text)
    if match is None:
        raise UsageError(f"{text!r} is not a duration", "write 500ms, 10s, 2m, or a number of seconds")
    return float(match[1]) * UNITS[match[2]]


def format_duration(seconds: float) -> str:
    """`0.7 s`, `12.3 s`, `2 min 5 s`, `3 h 2 min`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def rounded(value: float | None) -> float | None:
    """A figure as documents have it, seconds to the millisecond; None where it is not known."""
    return None if value is None else round(value, 3)


def plural(number: float, noun: str, ending: str = "s") -> str:
    """`1 checkpoint`, `2 checkpoints`, `2.5 epochs`, and with the ending `es` `2 processes`."""
    shown = f"{number:g}" if isinstance(number, float) else str(number)
    return f"{shown} {noun}" if number == 1 else f"{shown} {noun}{ending}"
