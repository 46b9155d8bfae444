"""Where a command's words go: results to stdout, progress to stderr, and JSON when it is asked for."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, TextIO

import click

from lab.cli.format import HOSTILE, harmless, shortened
from lab.errors import LabError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from lab.cluster.explain import Explanation

PLAIN_WIDTH = 400
"""Columns of a line that goes to a file or a pipe: nothing is wrapped, so that grep and awk can read it."""

PANEL_WIDTH = 80


def coloured(stream: TextIO) -> bool:
    """Whether colour makes sense on this stream."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def encodable(text: str, stream: TextIO | None = None) -> bool:
    """Whether the stream (default: stdout) can show `text`."""
    encoding = getattr(stream or sys.stdout, "encoding", None) or "ascii"
    try:
        text.encode(encoding)
    except (UnicodeError, LookupError):
        return False
    return True


def _encoded(text: str, stream: TextIO) -> str:
    """`text` as far as the stream can show it."""
    if encodable(text, stream):
        return text
    encoding = getattr(stream, "encoding", None) or "ascii"
    return text.encode(encoding, errors="replace").decode(encoding)


class Output:
    """The two streams of one command."""

    def __init__(self, *, json_wanted: bool = False, quiet: bool = False) -> None:
        self.json_wanted, self.quiet = json_wanted, quiet
        self.documents = 0
        """JSON documents written so far."""

    # Results, on stdout

    def document(self, document: Any, *, compact: bool = False) -> None:
        """One JSON document. `compact` puts it on one line, for streams."""
        text = json.dumps(document, ensure_ascii=False, default=str, indent=None if compact else 2)
        if not encodable(text) or HOSTILE.search(text):
            text = json.dumps(document, default=str, indent=None if compact else 2)
        click.echo(text)
        sys.stdout.flush()
        self.documents += 1

    def line(self, text: str = "") -> None:
        """A line of the result, with nothing in it that a terminal would obey."""
        self.raw_line(harmless(text))

    def raw_line(self, text: str) -> None:
        """A line as it is: of a log, whose colours stay, or drawn for the terminal."""
        click.echo(_encoded(text, sys.stdout))

    def show(self, renderable: RenderableType, *, width: int | None = None) -> None:
        """Something that rich draws: on a terminal with colour, elsewhere plain."""
        console = self.console(width=width)
        with console.capture() as capture:
            console.print(renderable)
        for line in capture.get().splitlines():
            self.raw_line(harmless(line.rstrip(), colours=True))

    def console(self, *, stderr: bool = False, width: int | None = None) -> Console:
        """A rich console on stdout or stderr that obeys NO_COLOR and never wraps where nobody looks."""
        from rich.console import Console

        stream = sys.stderr if stderr else sys.stdout
        terminal = stream.isatty()
        if width is None and not terminal:
            width = PLAIN_WIDTH
        elif width is not None and terminal:
            width = min(width, Console(file=stream).width)
        return Console(
            file=stream, width=width, highlight=False, markup=False, emoji=False,
            no_color=not coloured(stream), force_terminal=None if terminal else False,
        )  # fmt: skip

    def log_line(self, line: str) -> None:
        """A line of a log that is being followed; with --json it is progress."""
        if not self.json_wanted:
            self.raw_line(line)
            sys.stdout.flush()
        elif not self.quiet:
            click.echo(_encoded(line, sys.stderr), err=True)

    # Progress, on stderr

    def note(self, text: str) -> None:
        """Something that happens or helps, but is not the result."""
        if not self.quiet:
            self._tell(text)

    def ask(self, text: str) -> None:
        """What a question is about. Shown also with --quiet."""
        self._tell(text)

    def warn(self, text: str, hint: str = "") -> None:
        """Something that will probably surprise. Shown also with --quiet."""
        self._tell(text, self._label("warning:", "yellow") + " ")
        if hint:
            self._tell(hint, "  -> ")

    def complain(
        self, error: LabError, extra: dict[str, Any] | None = None, *, document: bool = True
    ) -> None:
        """What is wrong and what to do, in two lines; with --json also as a document that holds `extra`."""
        shown = describe(error)
        try:
            if self.json_wanted and document:
                self.document({"error": shown, **(extra or {})}, compact=self.documents > 0)
        finally:
            self._tell(shown["message"], self._label("error:", "red") + " ")
            if error.hint:
                self._tell(shown["hint"], "  -> ")

    def explain(self, found: Explanation | None) -> None:
        """Why a job failed, where that is known, and what to do about it. Shown also with --quiet."""
        if found is not None:
            self._tell(found.told, self._label("cause:", "red") + " ")
            self._tell(found.advice, "  -> ")

    @staticmethod
    def _tell(text: str, before: str = "") -> None:
        """A line on stderr; `before` may hold colour."""
        click.echo(before + _encoded(harmless(text), sys.stderr), err=True)

    @staticmethod
    def _label(text: str, colour: str) -> str:
        return click.style(text, fg=colour, bold=True) if coloured(sys.stderr) else text


def describe(error: LabError) -> dict[str, Any]:
    """An error as JSON: also how its words are shown, without values of any length."""
    return {
        "code": type(error).__name__,
        "exit_code": error.exit_code,
        "message": shortened(error.message),
        "hint": shortened(error.hint),
    }
