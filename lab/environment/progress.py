"""How an installation is followed: a single changing line on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import TextIO

EVERY = 10.0
"""Seconds between two lines of progress where a line cannot be changed."""

SEEN = re.compile(
    r"(?:Collecting|Requirement already satisfied:) ([\w.-]+)"
    r"|Processing (?:[^ ]*[/\\])?([A-Za-z0-9_.]+)-[^/\\ ]*\.whl"
)
"""pip has a package in hand: by name, or as a file."""


class Progress:
    """Says what happens: to `say` if given, else to `stream` (stderr: stdout carries only results)."""

    def __init__(
        self,
        say: Callable[[str], None] | None = None,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        columns: Callable[[], int] = lambda: shutil.get_terminal_size().columns,
    ) -> None:
        self._stream = stream or sys.stderr
        self._say = say
        self._changing = say is None and self._stream.isatty()
        self._clock = clock
        self._columns = columns
        self._start = clock()
        self._said_at = self._start
        self._shown = 0

    @property
    def seconds(self) -> float:
        """Seconds since the installation began."""
        return self._clock() - self._start

    def line(self, text: str) -> None:
        """Say something that stays."""
        self.clear()
        self._said_at = self._clock()
        if self._say:
            self._say(text)
        else:
            self._stream.write(text + "\n")
            self._stream.flush()

    def update(self, text: str) -> None:
        """Say how far it is; the next update replaces it, or comes EVERY seconds later."""
        text = f"{text}  {self.seconds:.0f} s"
        if not self._changing:
            if self._clock() - self._said_at >= EVERY:
                self.line(text)
            return
        text = text[: max(self._columns() - 1, 20)]
        self._stream.write("\r" + text + " " * max(self._shown - len(text), 0))
        self._stream.flush()
        self._shown = len(text)

    def clear(self) -> None:
        """Take the changing line away."""
        if self._shown:
            self._stream.write("\r" + " " * self._shown + "\r")
            self._stream.flush()
            self._shown = 0


class PipProgress:
    """Condenses pip's output to one line: the phase, packages done of all, and what is in work."""

    def __init__(self, title: str, requirements: str, installed: Callable[[], int]) -> None:
        """`requirements`: the text of the file; `installed()` counts packages on disk."""
        self._title = title
        self._pins = Counter(pinned(requirements))  # one package may have a line for each Python
        self._seen: set[str] = set()
        self._extra: set[str] = set()
        self._detail = ""
        self._to_install: list[str] = []
        self._installed = installed
        self._before = 0

    def feed(self, line: str) -> None:
        """Take one line that pip printed."""
        text = line.strip()
        if match := re.match(r"Ignoring ([\w.-]+):", text):
            self._pins[normalised(match[1])] -= 1
        elif match := SEEN.match(text):
            self._saw(match[1] or match[2])
        elif match := re.match(r"Downloading (?:\S*/)?([\w.]+-[\w.]+)\S*(?: \(([^)]+)\))?", text):
            self._detail = f"{match[1]} ({match[2]})" if match[2] else match[1]
        elif text.startswith("Installing collected packages:"):
            self._to_install = [name.strip() for name in text.split(":", 1)[1].split(",")]
            self._before = self._installed()

    def _saw(self, name: str) -> None:
        (self._seen if normalised(name) in self._pins else self._extra).add(normalised(name))
        self._detail = name

    def text(self) -> str:
        """The line to show now."""
        if self._to_install:
            total = len(self._to_install)
            done = min(max(self._installed() - self._before, 0), total)
            detail = self._to_install[min(done, total - 1)]
            return f"{self._title}: installing {done}/{total}  {detail}"
        expected = {name for name, lines in self._pins.items() if lines > 0}
        done = len(self._seen & expected) + len(self._extra)
        total = len(expected) + len(self._extra)
        return f"{self._title}: fetching {done}/{total}  {self._detail}".rstrip()


def normalised(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(requirements: str) -> list[str]:
    """The package of each line in the text of a requirements file."""
    names = (re.match(r"[A-Za-z0-9][\w.-]*", line) for line in requirements.splitlines())
    return [normalised(match[0]) for match in names if match]
