"""Quantities as people write and read them: durations, counted nouns."""

from __future__ import annotations

import re

UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float | None:
    """Seconds of `500ms`, `10s`, `2m`, `1h` or a plain number; None for any other text. May be negative."""
    match = re.fullmatch(r"(-?(?:\d+(?:\.\d*)?|\.\d+))(ms|s|m|h|)", text)
    return None if match is None else float(match[1]) * UNITS[match[2]]


def plural(number: float, noun: str) -> str:
    """`1 checkpoint`, `2 checkpoints`, `2.5 epochs`."""
    shown = f"{number:g}" if isinstance(number, float) else str(number)
    return f"{shown} {noun}" if number == 1 else f"{shown} {noun}s"
