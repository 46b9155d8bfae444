"""The pictures of a report, drawn with matplotlib: each as SVG, as PNG, and in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.ext.report.draw import curves, recovery, steps, usage, workers
from lab.ext.report.model import ReportData
from lab.flows.drawing import render, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Picture:
    """A picture in two forms. `alt` says in words what it shows, for those who do not see it."""

    name: str
    alt: str
    svg: bytes
    png: bytes


def draw_pictures(data: ReportData) -> tuple[Picture, ...]:
    """Every picture for which the report has enough evidence."""
    pictures = []
    with styled():
        for name, (draw, alt) in PICTURES.items():
            drawn = draw(data)
            if drawn is not None:
                pictures.append(Picture(name, alt(data), render(drawn, "svg"), render(drawn, "png")))
    return tuple(pictures)


Drawing = tuple[Callable[[ReportData], "Figure | None"], Callable[[ReportData], str]]

PICTURES: dict[str, Drawing] = {
    "timeline": (recovery.draw_timeline, recovery.alt_timeline),
    "workers": (workers.draw, workers.alt),
    "steps": (steps.draw, steps.alt),
    "curves": (curves.draw, curves.alt),
    "breakdown": (recovery.draw_breakdown, recovery.alt_breakdown),
    "ranks": (workers.draw_ranks, workers.alt_ranks),
    "usage": (usage.draw, usage.alt),
}
"""Name (also of the file) -> what draws it, or nothing where there is nothing to draw; and its words."""
