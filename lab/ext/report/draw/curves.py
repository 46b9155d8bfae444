"""The metrics over the epochs: each attempt of the run, the fault, and the control run beneath."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lab.ext.report.model import Metric, ReportData
from lab.flows.drawing import COLOURS, MARKERS, PALE, fault_line, figure, legend, of
from lab.host.quantities import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = {1: 1, 2: 2, 4: 2}
"""Pictures beside each other, by how many there are; of any other number, three."""

ALL_MARKED = 45
"""Up to so many epochs each has a marker."""


def draw(data: ReportData) -> Figure | None:
    """A small picture for each metric; nothing where no metric was reported."""
    if not data.metrics:
        return None
    columns = COLUMNS.get(len(data.metrics), 3)
    rows = math.ceil(len(data.metrics) / columns)
    drawn = figure(0.55 + 2.15 * rows)
    grid = drawn.subplots(rows, columns, squeeze=False)
    for place, metric in enumerate(data.metrics):
        _metric(grid[place // columns][place % columns], data, metric)
    for place in range(len(data.metrics), rows * columns):
        grid[place // columns][place % columns].set_visible(False)
    legend(drawn, drawn.axes, "upper left")
    return drawn


def _metric(axes: Axes, data: ReportData, metric: Metric) -> None:
    epochs = [epoch for line in metric.lines for epoch, _ in line.points]
    if metric.control:
        axes.plot(
            *zip(*metric.control, strict=True), color=PALE, linewidth=6, solid_capstyle="round", zorder=1,
            label=f"control run ({data.control_job})" if len(data.control_job) < 24 else "control run",
        )  # fmt: skip
    if data.repeated is not None:
        begin, end = data.repeated
        axes.axvspan(
            begin - 0.5, end + 0.5, facecolor="#FFF3D6", edgecolor="#E69F00", hatch="///", alpha=0.55,
            linewidth=0, zorder=0, label="done twice",
        )  # fmt: skip
    every = max(1, math.ceil(len(set(epochs)) / ALL_MARKED))
    for place, line in enumerate(metric.lines):
        at = line.attempt - 1
        axes.plot(
            *zip(*line.points, strict=True), color=of(COLOURS, at), marker=of(MARKERS, at),
            markersize=4 + 1.6 * min(place, 3), markevery=every, markerfacecolor="none" if place else None,
            zorder=3, label=f"attempt {line.attempt}",
        )  # fmt: skip
    if data.fault is not None:
        last = min(epochs, default=1) - 1 if data.fault_epoch is None else data.fault_epoch
        fault_line(axes, last + 0.5)
    axes.set_title(metric.name)
    axes.set_xlabel(data.epoch_key)
    axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    axes.margins(x=0.03, y=0.08)


def alt(data: ReportData) -> str:
    """The curves in words: first and last value of each metric."""
    ends = []
    for metric in data.metrics:
        first, last = metric.lines[0].points[0], metric.lines[-1].points[-1]
        ends.append(
            f"{metric.name} goes from {first[1]:.4g} ({data.epoch_key} {first[0]}) to {last[1]:.4g} "
            f"({data.epoch_key} {last[0]})"
        )
    text = f"Curves of {plural(len(data.metrics), 'metric')}: {'; '.join(ends)}."
    if data.curves is not None:
        text += f" Compared with the control run, {data.curves.detail}."
    return text
