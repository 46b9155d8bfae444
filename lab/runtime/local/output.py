"""The log of a service, a line at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from lab.host.clock import Clock
from lab.runtime import logtail

FOLLOW_SECONDS = 0.3


def lines(
    path: Path,
    *,
    tail: int | None,
    follow: bool,
    going_on: Callable[[], bool],
    clock: Clock,
) -> Iterator[str]:
    """The lines of `path` without newline, the last `tail` if given; with `follow` those to come too.

    Following ends when `going_on` says no. A file that does not exist has no lines.
    """
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as stream:
        yield from (line.rstrip("\n") for line in (deque(stream, tail) if tail is not None else stream))
        partial = ""
        while follow:
            partial += stream.readline()
            if partial.endswith("\n"):
                yield partial.rstrip("\n")
                partial = ""
                continue
            if not going_on():
                return
            clock.sleep(FOLLOW_SECONDS)


def last_lines(path: Path, count: int, *, since: int = 0) -> tuple[str, ...]:
    """The last `count` lines that say something after the first `since` bytes, fit to be shown in a message.

    See lab.runtime.logtail.
    """
    try:
        with path.open("rb") as stream:
            stream.seek(since)
            text = stream.read().decode("utf-8", errors="replace")
    except OSError:
        return ()
    return logtail.last_lines(text, count)
