"""Progress of an installation: one changing line on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

from lab.host.wrapping import wrapped

EVERY = 10.0
"""Seconds between two lines of progress where a line cannot be changed."""


class Printer:
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
        """Say a line that stays."""
        self.clear()
        self._said_at = self._clock()
        if self._say:
            self._say(text)
        else:
            if self._changing:
                text = wrapped(text, self._columns(), continued="  ")
            self._write(text + "\n")

    def update(self, text: str) -> None:
        """Say a state that the next update replaces; where lines stay, only every EVERY seconds."""
        text = f"{text}  {self.seconds:.0f} s"
        if not self._changing:
            if self._clock() - self._said_at >= EVERY:
                self.line(text)
            return
        text = text[: max(self._columns() - 1, 20)]
        self._write("\r" + text + " " * max(self._shown - len(text), 0))
        self._shown = len(text)

    def clear(self) -> None:
        """Take the changing line away."""
        if self._shown:
            self._write("\r" + " " * self._shown + "\r")
            self._shown = 0

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # what cannot be told must not end what is told of
            self._stream.write(text)
            self._stream.flush()


class InstallProgress:
    """Condenses what uv prints to one line: the phase, how much is done, and what came last."""

    def __init__(self, title: str, installed: Callable[[], int]) -> None:
        """`installed()` counts packages on disk."""
        self._title = title
        self._installed = installed
        self._before = installed()
        self._sizes: dict[str, float] = {}
        self._fetched = 0.0
        self._to_install = 0
        self._detail = ""

    def feed(self, line: str) -> None:
        """Take one line that uv printed."""
        text = line.strip()
        if match := re.match(r"Downloading (\S+) \(([\d.]+)([KMG])iB\)", text):
            self._sizes[match[1]] = float(match[2]) * 1024.0 ** (1 + "KMG".index(match[3]))
        elif match := re.match(r"Downloaded ([\w.-]+)", text):
            self._detail = match[1]
            self._fetched += self._sizes.get(match[1], 0.0)
        elif match := re.match(r"Prepared (\d+) package", text):
            self._to_install = int(match[1])

    def text(self) -> str:
        if self._to_install:
            done = min(max(self._installed() - self._before, 0), self._to_install)
            return f"{self._title}: installing {done}/{self._to_install}"
        size = sum(self._sizes.values())
        amount = f" {self._fetched / 1e6:.0f} of {size / 1e6:.0f} MB" if size else ""
        return f"{self._title}: fetching{amount}  {self._detail}".rstrip()


def normalised(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(requirements: str) -> list[str]:
    """The package of each line in the text of a requirements file."""
    names = (re.match(r"[A-Za-z0-9][\w.-]*", line) for line in requirements.splitlines())
    return [normalised(match[0]) for match in names if match]
