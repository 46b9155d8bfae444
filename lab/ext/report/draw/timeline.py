"""The recovery in seconds: what happened when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.ext.report import labels
from lab.ext.report.model import ReportData
from lab.flows.drawing import COLOURS, FAULT, QUIET, fault_line, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OF_THE_FAULT = ("reverted", "node_rejoined")
"""Moments that belong to the fault's length, not to the recovery."""


def draw(data: ReportData) -> Figure | None:
    """A line for each moment, as long as it took; nothing where only the fault is known."""
    known = [(m.key, m.label, m.seconds) for m in data.moments if m.seconds is not None]
    if len(known) < 2:
        return None
    drawn = figure(0.75 + 0.32 * len(known))
    axes = drawn.add_subplot()
    longest = max(*(seconds for _, _, seconds in known), 0.5)
    for place, (key, _, seconds) in enumerate(known):
        row = len(known) - 1 - place
        if key == "fault":
            axes.plot([0], [row], marker="X", markersize=9, color=FAULT, linestyle="none", zorder=6)
            axes.annotate("0 s", (0, row), xytext=(9, 0), textcoords="offset points", va="center")
            continue
        own = key in OF_THE_FAULT
        colour, marker = (QUIET, "s") if own else (COLOURS[0], "o")
        weight = "bold" if key == "first_report" else "normal"
        axes.plot([0, seconds], [row, row], color=colour, linewidth=2.6, linestyle=":" if own else "-")
        axes.plot([seconds], [row], marker=marker, markersize=7, color=colour, linestyle="none", zorder=4)
        axes.annotate(
            labels.seconds(seconds), (seconds, row), xytext=(9, 0), textcoords="offset points",
            va="center", fontweight=weight,
        )  # fmt: skip
    fault_line(axes)
    axes.set_yticks(range(len(known)), [label for _, label, _ in reversed(known)])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    least = min(seconds for _, _, seconds in known)
    axes.set_xlim(min(least, 0) - longest * 0.02, longest * 1.12)
    axes.set_ylim(-0.6, len(known) - 0.4)
    axes.set_xlabel("seconds after the fault")
    return drawn


def alt(data: ReportData) -> str:
    """The moments in one sentence."""
    moments = [
        f"{m.label} after {labels.seconds(m.seconds)}" for m in data.moments[1:] if m.seconds is not None
    ]
    return f"Timeline of the fault: {', '.join(moments)}."
