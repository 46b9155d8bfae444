"""Tables for people: aligned columns without lines. rich draws what has to fold or is more than ASCII.

That spares most commands rich's import, and thousands of rows seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

GAP = 2
"""Spaces between two columns."""

SHORT = 8
"""Columns of a size, a time or a state, which does not fold for a word elsewhere."""

STYLES = {
    "healthy": "green", "running": "yellow", "starting": "yellow", "paused": "magenta", "exited": "red",
    "absent": "dim", "SUCCEEDED": "green", "FAILED": "red", "STOPPED": "magenta", "RUNNING": "cyan",
    "PENDING": "yellow", "alive": "green", "dead": "red", "passed": "green", "failed": "red",
    "warning": "yellow", "skipped": "dim",
    "PASS": "green", "WARN": "yellow", "EVICT": "red", "UNKNOWN": "dim",
}  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """Rows of cells, each of which has its colour where it is a known state."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def width(self) -> int:
        """Columns of a terminal in which no cell folds, if all are ASCII."""
        return sum(self._widths) + GAP * (len(self.columns) - 1)

    @property
    def _widths(self) -> list[int]:
        return [max(map(len, column)) for column in zip(self.columns, *self.rows, strict=True)]

    def lines(self, width: int, *, colours: bool) -> Iterator[str] | None:
        """The lines of the table; None where they are wider than this, or not all of printable ASCII."""
        every = (self.columns, *self.rows)
        if not all(cell.isascii() and cell.isprintable() for row in every for cell in row):
            return None
        if self.width > width:
            return None
        widths = self._widths
        return (_line(row, widths, head=n == 0, colours=colours) for n, row in enumerate(every))

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        from rich.cells import cell_len
        from rich.table import Table
        from rich.text import Text

        columns = list(zip(self.columns, *self.rows, strict=True))
        widths = shared_out(
            [{cell_len(word) for cell in column for word in cell.split()} or {0} for column in columns],
            [max(map(cell_len, column)) for column in columns],
            options.max_width - GAP * (len(columns) - 1),
        )
        drawn = Table(box=None, padding=(0, GAP, 0, 0), header_style="bold", pad_edge=False)
        for column, width in zip(self.columns, widths, strict=True):
            drawn.add_column(column, overflow="fold", width=width)
        for row in self.rows:
            drawn.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
        yield drawn


def shared_out(words: Sequence[Collection[int]], cells: Sequence[int], room: int) -> list[int]:
    """Widths of columns: the widest are cut alike, then sentences give way to words that would fold.

    `words` are the lengths of those of each column, `cells` its longest cell, `room` is what all have
    together. A column gives at most half of what it has, one of SHORT cells nothing: where that does not
    keep a word whole, the word folds.
    """
    longest = [max(lengths) for lengths in words]
    level = next((most for most in range(max(cells), 1, -1) if sum(min(c, most) for c in cells) <= room), 1)
    widths = [max(min(cell, level), 1) for cell in cells]
    rest = max(room - sum(widths), 0)
    for column in sorted(range(len(widths)), key=lambda n: longest[n] - widths[n]):
        spare = [
            0 if cell <= SHORT else max(w - max(word, -(-w // 2)), 0)
            for w, word, cell in zip(widths, longest, cells, strict=True)
        ]
        lacking = (length - widths[column] for length in words[column])
        lack = max((lack for lack in lacking if 0 < lack <= rest + sum(spare)), default=0)
        widths[column] += lack
        lack, rest = max(lack - rest, 0), max(rest - lack, 0)
        for _ in range(lack):
            giver = max(range(len(spare)), key=lambda n: (spare[n] > 0, widths[n]))
            widths[giver] -= 1
            spare[giver] -= 1
    return widths


def _line(row: tuple[str, ...], widths: list[int], *, head: bool, colours: bool) -> str:
    cells = (
        _styled(cell, head=head) + " " * (width - len(cell)) if colours else cell.ljust(width)
        for cell, width in zip(row, widths, strict=True)
    )
    return (" " * GAP).join(cells).rstrip()


def _styled(cell: str, *, head: bool) -> str:
    style = STYLES.get(cell)
    if head or not style:
        return click.style(cell, bold=True) if head else cell
    return click.style(cell, dim=True) if style == "dim" else click.style(cell, fg=style)
