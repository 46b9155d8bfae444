"""Tables for people: aligned columns without lines. rich draws what has to fold or is more than ASCII.

That spares most commands rich's import, and thousands of rows seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table

GAP = 2
"""Spaces between two columns."""

STYLES = {
    "healthy": "green", "running": "yellow", "starting": "yellow", "paused": "magenta", "exited": "red",
    "absent": "dim", "SUCCEEDED": "green", "FAILED": "red", "STOPPED": "magenta", "RUNNING": "cyan",
    "PENDING": "yellow", "alive": "green", "dead": "red", "passed": "green", "failed": "red",
    "warning": "yellow", "skipped": "dim",
    "PASS": "green", "WARN": "yellow", "TESTING": "cyan", "EVICT": "red", "UNKNOWN": "dim",
}  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """Rows of cells, each of which has its colour where it is a known state."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def lines(self, width: int, *, colours: bool) -> Iterator[str] | None:
        """The lines of the table; None where they are wider than this, or not all of printable ASCII."""
        every = (self.columns, *self.rows)
        if not all(cell.isascii() and cell.isprintable() for row in every for cell in row):
            return None
        widths = [max(map(len, column)) for column in zip(*every, strict=True)]
        if sum(widths) + GAP * (len(widths) - 1) > width:
            return None
        return (_line(row, widths, head=n == 0, colours=colours) for n, row in enumerate(every))

    def __rich__(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        drawn = Table(box=None, padding=(0, GAP, 0, 0), header_style="bold", pad_edge=False)
        for column in self.columns:
            drawn.add_column(column, overflow="fold")
        for row in self.rows:
            drawn.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
        return drawn


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
