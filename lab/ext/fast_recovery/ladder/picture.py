"""The picture of a ladder: who stepped when on every rung, the longest gap marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.ext.fast_recovery.ladder.measure import Measured, StepRow, within
from lab.ext.fast_recovery.ladder.result import Ladder
from lab.flows.drawing import COLOURS, FAULT, QUIET, fault_line, figure, legend, render, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BEFORE, AFTER = 2.0, 2.0
"""Seconds that are shown before the loss, and after all are back on the slowest rung."""

LEGIBLE_TICKS = 900
"""Ticks in a row, at most; of more, every second or third is drawn."""

ROOM = 0.15
"""Share of the width that the words at the end of a row need."""

SAME_SECONDS = 1.0
"""Ranks whose last steps are this close have ended together."""

LANE = 0.27
"""Inches of one rank."""


def picture(ladder: Ladder) -> bytes | None:
    """Return the picture as PNG; None where no rung was measured."""
    with styled():
        drawn = draw(ladder)
        return None if drawn is None else render(drawn, "png")


def draw(ladder: Ladder) -> Figure | None:
    """Draw the typical run of each rung; None where none was measured."""
    shown = [(rung.title, typical) for rung in ladder.rungs if (typical := ladder.typical(rung)) is not None]
    return _draw(ladder.fault, shown) if shown else None


def _draw(fault: str, shown: list[tuple[str, Measured]]) -> Figure:
    end = AFTER + max(max(measured.all_back or 0.0, measured.longest_gap or 0.0) for _, measured in shown)
    lanes = sum(len(measured.rows) + 1 for _, measured in shown)
    drawn = figure(0.95 + LANE * lanes)
    axes = drawn.add_subplot()
    labels: list[tuple[int, str]] = []
    place = lanes - 1
    for title, measured in shown:
        over = max(map(_last, measured.rows), default=end)
        for number, row in enumerate(measured.rows):
            draw_row(axes, place, within(row, -BEFORE, end))
            if end - over > ROOM * (end + BEFORE) and over - _last(row) < SAME_SECONDS:
                _say_over(axes, place, over)
            labels.append((place, f"{'' if number else title}   rank {row.rank}"))
            place -= 1
        axes.axhline(place, color=QUIET, linewidth=0.3)
        place -= 1
    axes.set_xlim(-BEFORE, end)
    axes.set_ylim(0.2, lanes - 0.3)
    axes.set_yticks(*zip(*labels, strict=True))
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    fault_line(axes, 0.0, label=f"fault: {fault}")
    axes.set_xlabel("seconds after the loss of the rank")
    legend(drawn, [axes], "lower left")
    return drawn


def _last(row: StepRow) -> float:
    """Return the seconds of the last step of a rank."""
    return max((*row.together, *row.alone), default=-BEFORE)


def _say_over(axes: Axes, place: int, over: float) -> None:
    """Write beside a row that its training is over, where slower ones go on: it has not stood still."""
    axes.annotate(
        "training over", (over, place), xytext=(4, 0), textcoords="offset points", color=QUIET, fontsize=8,
        va="center",
    )  # fmt: skip


def draw_row(axes: Axes, place: int, row: StepRow) -> None:
    """Draw the steps of one rank at this height, and its longest gap."""
    every = 1 + len(row.together) // LEGIBLE_TICKS
    for times, colour, height, label in (
        (row.together[::every], COLOURS[0], 0.3, "a step of all ranks"),
        (row.alone, COLOURS[1], 0.18, "a step without a lost rank"),
    ):
        if times:
            axes.vlines(times, place - height, place + height, color=colour, linewidth=0.7, label=label)
    if row.gap is not None:
        begin, end = row.gap
        axes.broken_barh(
            [(begin, end - begin)], (place - 0.4, 0.8), facecolor="#F1F1F1", edgecolor=QUIET, hatch="xxx",
            linewidth=0.8, zorder=0, label="longest gap after the fault",
        )  # fmt: skip
        axes.annotate(
            f"{end - begin:.2f} s", (end, place + 0.4), xytext=(2, -1), textcoords="offset points",
            color=FAULT, fontsize=8, va="bottom", annotation_clip=False,
        )  # fmt: skip
