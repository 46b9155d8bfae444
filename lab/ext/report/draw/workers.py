"""The training over time: a row for each service, a bar for each rank of each attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.ext.report import labels
from lab.ext.report.model import Bar, ReportData
from lab.flows.drawing import COLOURS, HATCHES, INK, QUIET, fault_line, figure, legend, of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LANE = 0.42
"""Inches of one lane; a service has one for each rank that ever trained on it at the same time."""

ZOOM_SHARE = 5.0
"""The time around the fault gets a picture of its own where the whole is so many times longer."""

LEGIBLE_TICKS = 90
"""Reports that are marked in a bar, at most."""


def draw(data: ReportData) -> Figure | None:
    """Draw the whole run, and the time around the fault larger; None where no attempt is known."""
    if not data.bars:
        return None
    lanes = _lanes(data)
    begin, end = min(bar.begin for bar in data.bars), _end(data)
    views = [(begin, end, "")]
    around = _around(data, begin, end)
    if around is not None and (end - begin) > ZOOM_SHARE * (around[1] - around[0]):
        views[0] = (begin, end, "the whole run")
        views.append((*around, "around the fault"))
    drawn = figure(0.55 + len(views) * (0.75 + LANE * sum(lanes.values())))
    for place, (left, right, title) in enumerate(views):
        axes = drawn.add_subplot(len(views), 1, place + 1)
        _view(axes, data, lanes, left, right)
        if title:
            axes.set_title(title, pad=14 if data.fault else 6)
    legend(drawn, drawn.axes[:1], "lower left")
    return drawn


def _end(data: ReportData) -> float:
    ends = [bar.end for bar in data.bars]
    if data.down is not None and data.down.end is not None:
        ends.append(data.down.end)
    return max(ends)


def _around(data: ReportData, begin: float, end: float) -> tuple[float, float] | None:
    """The time from a little before the fault to a little after everything that it caused."""
    if data.fault is None:
        return None
    times = [m.seconds for m in data.moments if m.seconds is not None and m.seconds < 300]
    last = max(times, default=0.0)
    margin = max(1.0, 0.35 * last)
    return max(begin, -margin), min(end, last + margin)


def _lanes(data: ReportData) -> dict[str, int]:
    """Service -> how many bars of it can stand beside each other at one time, at least one."""
    lanes = {}
    for service in data.services:
        per_attempt = [
            sum(b.service == service and b.attempt == a for b in data.bars)
            for a in {b.attempt for b in data.bars}
        ]
        lanes[service] = max(1, *per_attempt)
    return lanes


def _view(axes: Axes, data: ReportData, lanes: dict[str, int], left: float, right: float) -> None:
    rows, top = {}, sum(lanes.values())
    for service, count in lanes.items():
        top -= count
        rows[service] = top
    width = right - left
    for bar in data.bars:
        _bar(axes, data, bar, rows[bar.service], left, right)
    down = data.down
    if down is not None and down.service in rows:
        until = right + width if down.end is None else down.end
        axes.broken_barh(
            [(down.begin, until - down.begin)], (rows[down.service] + 0.06, lanes[down.service] - 0.12),
            facecolor="#F1F1F1", edgecolor=QUIET, hatch="xxx", linewidth=0.8, zorder=2,
            label="node down" if down.lost else "fault lasts",
        )  # fmt: skip
    for row in list(rows.values())[:-1]:
        axes.axhline(row, color="#D4D7DC", linewidth=0.8, zorder=0)
    total = sum(lanes.values())
    axes.set_ylim(0, total)
    axes.set_yticks([row + lanes[service] / 2 for service, row in rows.items()], list(rows))
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlim(left - 0.01 * width, right + 0.01 * width)
    if data.fault is not None:
        fault_line(axes, 0.0, label=f"fault: {data.fault.kind} {data.fault.target}")
    axes.set_xlabel(data.time_label)


def _bar(axes: Axes, data: ReportData, bar: Bar, row: int, left: float, right: float) -> None:
    same = sorted(b.rank for b in data.bars if (b.service, b.attempt) == (bar.service, bar.attempt))
    lane = row + len(same) - 1 - same.index(bar.rank)
    place = bar.attempt - 1
    axes.broken_barh(
        [(bar.begin, max(bar.end - bar.begin, 0.004 * (right - left)))], (lane + 0.16, 0.68),
        facecolor=of(COLOURS, place), edgecolor="white", hatch=of(HATCHES, place), linewidth=0.8, zorder=3,
        label=f"attempt {bar.attempt}",
    )  # fmt: skip
    if len(bar.reports) <= LEGIBLE_TICKS:
        seen = [at for at in bar.reports if bar.begin <= at <= bar.end]
        axes.vlines(seen, lane + 0.16, lane + 0.3, color="white", linewidth=1.4, zorder=4)
    begin, end = max(bar.begin, left), min(bar.end, right)
    share = (end - begin) / (right - left)
    text = f"attempt {bar.attempt}, rank {bar.rank}" if share > 0.22 else f"rank {bar.rank}"
    if share > 0.09:
        axes.text(
            (begin + end) / 2, lane + 0.54, text, ha="center", va="center", fontsize=8.5, color=INK, zorder=5,
            clip_on=True,
            bbox={"boxstyle": "round,pad=0.22", "facecolor": "white", "edgecolor": "none", "alpha": 0.92},
        )  # fmt: skip


def alt(data: ReportData) -> str:
    """The picture in words."""
    sentences = [
        f"attempt {b.attempt} rank {b.rank} on {b.service}, {labels.after(b.begin)} to {labels.after(b.end)}"
        for b in data.bars
    ]
    text = f"Which worker trained when: {'; '.join(sentences)}."
    if data.down is not None:
        until = "the end" if data.down.end is None else labels.after(data.down.end)
        text += f" {data.down.service} was {'down' if data.down.lost else 'under the fault'} until {until}."
    return text
