"""The steps of a training whose survivors go on: a row for each rank, a tick for each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.ext.report import labels
from lab.ext.report.model import ReportData
from lab.flows.drawing import draw_row, fault_line, figure, legend
from lab.host.quantities import plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
