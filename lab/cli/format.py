"""Numbers and times as people read them."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from lab.host.quantities import format_duration

if TYPE_CHECKING:
    from lab.cluster.allocation import Waiting

LONGEST_WORD = 240
"""Most characters of a word, such as a path, that an error shows; of a line; of a message."""
LONGEST_LINE, LONGEST_MESSAGE = 1_000, 6_000


def seconds(value: float | None) -> str:
    """A duration: `0.7 s`, `12.3 s`, `2 min 5 s`, `3 h 2 min`; empty for None."""
    return "" if value is None else format_duration(value)


def size(count: int | float) -> str:
    """Bytes in decimal units, as disks are sold: `512 B`, `1.2 MB`."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def epoch_seconds(moment: datetime | float | None) -> float | None:
    """A point in time as seconds since the epoch."""
    return moment.timestamp() if isinstance(moment, datetime) else moment


def clock(moment: datetime | float | None) -> str:
    """A point in time in local time: `2026-11-20 21:44:05`; empty for None."""
    value = epoch_seconds(moment)
    return "" if value is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value))


def resources(amounts: Mapping[str, float]) -> str:
    """Offers of a node: `8 CPU, 1 GPU`; memory and Ray's internal resources are left out."""
    return ", ".join(f"{amounts[name]:g} {name}" for name in ("CPU", "GPU") if amounts.get(name))


def without_secrets(url: str) -> str:
    """Remove the token from the query of `url`."""
    return re.sub(r"[?&]token=[^&#]*", "", url)


def shortened(message: str) -> str:
    """Cut what is too long to read in a message: a value that was given may have any length."""
    words = re.sub(rf"\S{{{LONGEST_WORD + 1},}}", lambda match: _cut(match[0], LONGEST_WORD), message)
    lines = re.sub(rf".{{{LONGEST_LINE + 1},}}", lambda match: _cut(match[0], LONGEST_LINE), words)
    return _cut(lines, LONGEST_MESSAGE)


def _cut(part: str, most: int) -> str:
    """Keep beginning and end of a part that is too long, with its length in between."""
    if len(part) <= most:
        return part
    end = most // 4
    return f"{part[: most - end]}[... {len(part)} characters ...]{part[-end:]}"


HOSTILE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters, also those that reverse text, and halves of characters."""


COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


def harmless(shown: str, *, colours: bool = False) -> str:
    r"""`shown` with what a terminal would obey written out, as `\x1b`. Tabs and ends of lines stay.

    With `colours`, those stay, too.
    """
    if not HOSTILE.search(shown):
        return shown
    if colours:
        return "".join(part if COLOUR.fullmatch(part) else harmless(part) for part in COLOUR.split(shown))
    return HOSTILE.sub(lambda match: ascii(match[0])[1:-1], shown)


ANNOUNCED = re.compile(r", last available logs \([^)]*\):$")
"""Words of Ray's (2.60) before the lines of the log in a message."""


def first_line(message: str) -> str:
    """The first line with content."""
    line = next((line.strip() for line in message.splitlines() if line.strip()), "")
    return ANNOUNCED.sub("", line)


def at_rest(line: str) -> str:
    """A line of a log as a terminal shows it in the end: of a progress bar only the last state."""
    return next((part for part in reversed(line.split("\r")) if part.strip()), "")


def waits(item: Waiting) -> str:
    """Say that a job, or a part of a running one, waits, and why."""
    if item.what == "entrypoint":
        return f"job {item.job} waits: {item.text}"
    return f"job {item.job} runs, but its {item.what} wait{'' if item.what == 'ranks' else 's'}: {item.text}"
