"""Resource use: CPU, memory and GPU over time, a line for each service."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from lab.ext.report.model import ReportData
from lab.flows.drawing import COLOURS, DASHES, MARKERS, fault_line, figure, legend, of
from lab.flows.recovery.usage_samples import Sample

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GIB = 2.0**30

Value = Callable[[Sample], float | None]

KINDS: tuple[tuple[str, Value], ...] = (
    ("CPU, cores in use", lambda s: None if s.cpu_percent is None else s.cpu_percent / 100),
    ("memory, GiB", lambda s: None if s.memory_bytes is None else s.memory_bytes / GIB),
    ("GPU, % of the time", lambda s: s.gpu_percent),
)


def measured(data: ReportData) -> list[tuple[str, dict[str, list[tuple[float, float]]]]]:
    """The name of each kind that was measured, and its service -> (seconds, value) in order."""
    services = sorted({sample.service for sample in data.samples})
    measurements = []
    for name, value in KINDS:
        rows = {
            service: [(s.at, v) for s in data.samples if s.service == service and (v := value(s)) is not None]
            for service in services
        }
        kept = {service: points for service, points in rows.items() if points}
        if kept:
            measurements.append((name, kept))
    return measurements


def draw(data: ReportData) -> Figure | None:
    """Draw a picture for each kind of resource, one below the other; None without samples."""
    kinds = measured(data)
    if not kinds:
        return None
    drawn = figure(0.6 + 1.65 * len(kinds))
    grid = drawn.subplots(len(kinds), 1, squeeze=False, sharex=True)
    times = sorted({sample.at for sample in data.samples})
    order = sorted({service for _, rows in kinds for service in rows})
    for (axes,), (name, rows) in zip(grid, kinds, strict=True):
        for service, points in rows.items():
            at = order.index(service)
            axes.plot(
                *zip(*_broken(points, times), strict=True), color=of(COLOURS, at), linestyle=of(DASHES, at),
                marker=of(MARKERS, at), markersize=3.5, markevery=max(1, len(points) // 15), label=service,
            )  # fmt: skip
        axes.set_title(name)
        axes.set_ylim(bottom=0)
        axes.margins(x=0.01)
        if data.fault is not None:
            fault_line(axes)
    last = grid[-1][0]
    last.set_xlabel(data.time_label)
    legend(drawn, drawn.axes, "lower left", 5)
    return drawn


def _broken(points: Sequence[tuple[float, float]], times: Sequence[float]) -> list[tuple[float, float]]:
    """The points, with a gap in the line wherever one of `times` has none, as while a node is gone."""
    line = list(points[:1])
    for before, point in pairwise(points):
        following = times[bisect(times, before[0])]
        if following < point[0]:
            line.append((following, math.nan))
        line.append(point)
    return line


def alt(data: ReportData) -> str:
    """The highest value of each service, in words."""
    sentences = [
        f"{name}: "
        + ", ".join(f"{service} up to {max(v for _, v in points):.1f}" for service, points in rows.items())
        for name, rows in measured(data)
    ]
    return f"Resource use. {'; '.join(sentences)}."
