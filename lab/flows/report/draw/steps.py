"""The steps of a training whose survivors go on: a row for each rank, a tick for each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.flows.report import labels
from lab.flows.report.draw.style import COLOURS, FAULT, QUIET, fault_line, figure, legend
from lab.flows.report.model import ReportData, StepRow
from lab.host.quantities import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEGIBLE_TICKS = 900
"""Ticks in a row, at most; of more, every second or third is drawn."""


def draw(data: ReportData) -> Figure | None:
    """Draw who took a step when, around the fault; None for a training of another kind."""
    if not data.steps:
        return None
    drawn = figure(0.95 + 0.42 * len(data.steps))
    axes = drawn.add_subplot()
    for place, row in enumerate(reversed(data.steps)):
        draw_row(axes, place, row)
    axes.set_ylim(-0.6, len(data.steps) - 0.4)
    axes.set_yticks(range(len(data.steps)), [f"rank {row.rank}" for row in reversed(data.steps)])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    if data.fault is not None:
        fault_line(axes, 0.0, label=f"fault: {data.fault.kind} {data.fault.target}")
    axes.set_xlabel(data.time_label)
    legend(drawn, [axes], "lower left")
    return drawn


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


def alt(data: ReportData) -> str:
    """The picture in words."""
    ranks = []
    for row in data.steps:
        text = f"rank {row.rank}: {plural(len(row.together), 'step')} of all ranks"
        text += f", {len(row.alone)} without a lost one"
        if row.gap is not None:
            text += f", longest gap {row.gap[1] - row.gap[0]:.2f} s from {labels.after(row.gap[0])} on"
        ranks.append(text)
    return f"Who took a step when, around the fault. {'; '.join(ranks)}."
