"""Output of a command: results to stdout, progress to stderr, JSON on demand."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TextIO

import click

from lab.api.base import plain
from lab.cli.format import HOSTILE, at_rest, harmless, shortened
from lab.cli.tables import Grid
from lab.errors import LabError
from lab.host.wrapping import wrapped

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from lab.api.shown import ShownError
    from lab.cluster.explain import Explanation

PLAIN_WIDTH = 400
"""Width of a line in a file or a pipe, in columns: nothing is wrapped, for grep and awk."""

PANEL_WIDTH = 80


def coloured(stream: TextIO) -> bool:
    """Tell if this stream shows colour."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def encodable(text: str, stream: TextIO | None = None) -> bool:
    """Tell if the stream (default: stdout) can show `text`."""
    encoding = getattr(stream or sys.stdout, "encoding", None) or "ascii"
    try:
        text.encode(encoding)
    except (UnicodeError, LookupError):
        return False
    return True


def _encoded(text: str, stream: TextIO) -> str:
    """Replace what the stream cannot show."""
    if encodable(text, stream):
        return text
    encoding = getattr(stream, "encoding", None) or "ascii"
    return text.encode(encoding, errors="replace").decode(encoding)


class Output:
    """The two streams of one command."""

    def __init__(self, *, quiet: bool = False, about: Callable[[str], str] = str) -> None:
        """`about` names the lab in advice: in all that goes to stderr, in errors as JSON, and in `advise`."""
        self.json_wanted, self.quiet, self.about = False, quiet, about
        self.documents = 0
        """JSON documents written so far."""

    # Results, on stdout

    def document(self, document: object, *, compact: bool = False) -> None:
        """Print a JSON document, also of lab.api's shapes. `compact` puts it on one line, for streams."""
        data, indent = plain(document), None if compact else 2
        text = json.dumps(data, ensure_ascii=False, default=str, indent=indent)
        if not encodable(text) or HOSTILE.search(text):
            text = json.dumps(data, default=str, indent=indent)
        click.echo(text)
        sys.stdout.flush()
        self.documents += 1

    def as_json(self, document: object, *, compact: bool = False) -> bool:
        """Print the result as a JSON document, if that is wanted; tell if it was."""
        if self.json_wanted:
            self.document(document, compact=compact)
        return self.json_wanted

    def line(self, text: str = "") -> None:
        """Print a line of the result, without control characters."""
        self.raw_line(harmless(text))

    def sentence(self, text: str) -> None:
        """Print a sentence of the result; on a terminal broken between words."""
        line = harmless(text)
        self.raw_line(wrapped(line, self.width()) if sys.stdout.isatty() else line)

    def advise(self, text: str) -> None:
        """Print a sentence of the result that names commands to type."""
        self.sentence(self.about(text))

    def raw_line(self, text: str) -> None:
        """Print a line unchanged: of a log, whose colours stay, or drawn for the terminal."""
        click.echo(_encoded(text, sys.stdout))

    def show(self, renderable: RenderableType, *, width: int | None = None) -> None:
        """Print a table, or something that rich draws: with colour on a terminal, plain elsewhere."""
        if isinstance(renderable, Grid):
            lines = renderable.lines(self.width(width), colours=coloured(sys.stdout))
            if lines is not None:
                for line in lines:
                    self.raw_line(line)
                return
        console = self.console(width=width)
        with console.capture() as capture:
            console.print(renderable)
        for line in capture.get().splitlines():
            self.raw_line(harmless(line.rstrip(), colours=True))

    def width(self, width: int | None = None) -> int:
        """Columns of a line: of the terminal, `width` at most; elsewhere that, or enough for most."""
        if not sys.stdout.isatty():
            return width or PLAIN_WIDTH
        columns = shutil.get_terminal_size().columns
        return min(width or columns, columns)

    def console(self, *, stderr: bool = False, width: int | None = None) -> Console:
        """Make a rich console that obeys NO_COLOR and wraps only on a terminal."""
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
        """Print a line of a log; with --json it is progress. A progress bar moves only on a terminal."""
        stream = sys.stderr if self.json_wanted else sys.stdout
        line = line if stream.isatty() else at_rest(line)
        if not self.json_wanted:
            self.raw_line(line)
            sys.stdout.flush()
        elif not self.quiet:
            click.echo(_encoded(line, sys.stderr), err=True)

    # Progress, on stderr

    def note(self, text: str) -> None:
        """Print progress or advice, unless --quiet is given."""
        if not self.quiet:
            self._tell(text)

    def ask(self, text: str) -> None:
        """Print the subject of a question, also with --quiet."""
        self._tell(text)

    def warn(self, text: str, hint: str = "") -> None:
        """Print a warning, also with --quiet."""
        self._tell(text, self._label("warning:", "yellow") + " ")
        if hint:
            self._tell(hint, "  -> ")

    def complain(
        self, error: LabError, extra: Mapping[str, object] | None = None, *, document: bool = True
    ) -> None:
        """Print an error and its hint, a line each; with --json also a document that holds `extra`."""
        shown = describe(error)
        shown["hint"] = self.about(shown["hint"])
        try:
            if self.json_wanted and document:
                self.document({"error": shown, **(extra or {})}, compact=self.documents > 0)
        finally:
            self._tell(shown["message"], self._label("error:", "red") + " ")
            if error.hint:
                self._tell(shown["hint"], "  -> ")

    def explain(self, explanation: Explanation | None) -> None:
        """Print the cause of a failed job, if known, and what to do, also with --quiet."""
        if explanation is not None:
            self._tell(explanation.summary, self._label("cause:", "red") + " ")
            self._tell(explanation.advice, "  -> ")

    def _tell(self, text: str, before: str = "") -> None:
        """Write a line to stderr; `before` may hold colour."""
        line = _encoded(harmless(self.about(text)), sys.stderr)
        if sys.stderr.isatty():
            columns = shutil.get_terminal_size().columns
            line = wrapped(line, columns, len(click.unstyle(before)))
        click.echo(before + line, err=True)

    @staticmethod
    def _label(text: str, colour: str) -> str:
        return click.style(text, fg=colour, bold=True) if coloured(sys.stderr) else text


def describe(error: LabError) -> ShownError:
    """Describe an error in JSON, with overlong values cut."""
    return {
        "code": type(error).__name__,
        "exit_code": error.exit_code,
        "message": shortened(error.message),
        "hint": shortened(error.hint),
    }
