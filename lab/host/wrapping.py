"""Long lines, broken between words for a terminal."""

from __future__ import annotations

import textwrap

CONTINUED = "     "
"""What stands before the second and further lines of one that was too long for the terminal."""


def wrapped(text: str, columns: int, taken: int = 0, *, continued: str = CONTINUED) -> str:
    """Break lines that are longer than the terminal between words; `taken` columns stand before the first."""
    first, *others = ("x" * taken + text).split("\n")
    return "\n".join(_broken(line, columns, continued) for line in (first, *others))[taken:]


def _broken(line: str, columns: int, continued: str) -> str:
    if len(line) <= columns:
        return line
    return textwrap.fill(
        line, columns, subsequent_indent=continued, break_long_words=False, break_on_hyphens=False
    )
