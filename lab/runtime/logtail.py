"""The end of a service's log as a part of a message."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

LINE_LENGTH = 300
"""Longest line of a log in an error message; C++ writes longer ones."""

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


def last_lines(text: str, count: int) -> tuple[str, ...]:
    """The last `count` lines that say something, fit to be shown in a message.

    Colours and control characters are taken out, long lines cut, empty lines left out.
    """
    shown = (_CONTROL.sub("", line).rstrip() for line in text.split("\n"))
    return tuple(
        line if len(line) <= LINE_LENGTH else f"{line[:LINE_LENGTH]}..."
        for line in deque((line for line in shown if line.strip()), count)
    )


def listing(lines: Sequence[str]) -> str:
    """The end of a log as the end of a message."""
    if not lines:
        return "It wrote nothing."
    return "Its last lines:\n" + "\n".join(f"  {line}" for line in lines)
