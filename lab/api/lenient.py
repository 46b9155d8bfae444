"""Values from outside where one of the wrong type is as good as none."""

from __future__ import annotations

from collections.abc import Mapping

from lab.api.base import Number

MAX_NUMBER = 2**53
"""Beyond it JSON numbers are not exact."""


def number(value: object) -> Number | None:
    """Return `value` if it is a number of sane size, a whole one as int; else None, also for a bool."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < MAX_NUMBER:
        return None
    return int(value) if value == int(value) else value


def whole(value: object) -> int | None:
    """Return a whole number; None for anything else."""
    whole_number = number(value)
    return whole_number if isinstance(whole_number, int) else None


def integer(value: object) -> int | None:
    """Return an int of any size; None for anything else, also for 1.0."""
    return value if isinstance(value, int) else None


def text(value: object) -> str | None:
    """Return a text; None for anything else."""
    return value if isinstance(value, str) else None


def words(value: object) -> str:
    """Return anything as text; an empty one where there is nothing."""
    return str(value) if value else ""


def texts(value: object) -> frozenset[str] | None:
    """Return a list of texts as a set; None for anything else."""
    known = isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    return frozenset(value) if known and isinstance(value, list) else None


def numbers(value: object) -> tuple[Number, ...] | None:
    """Return a list of numbers; None for anything else."""
    known = [n for entry in value if (n := number(entry)) is not None] if isinstance(value, list) else None
    return (
        tuple(known) if known is not None and isinstance(value, list) and len(known) == len(value) else None
    )


def mapping(value: object) -> Mapping[str, object]:
    """Return a mapping; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def is_true(value: object) -> bool:
    """Tell whether it is `true`, and nothing else."""
    return value is True
