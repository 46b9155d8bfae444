"""The pictures of a report, drawn with matplotlib: each as SVG, as PNG, and in words."""

from __future__ import annotations

from dataclasses import dataclass

from lab.ext.report.draw import curves, timeline, workers
from lab.ext.report.model import ReportData
from lab.flows.drawing import render, styled

PICTURES = {"timeline": timeline, "workers": workers, "curves": curves}
"""Name (also of the file) -> what draws it, or nothing where there is nothing to draw; and its words."""


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
        for name, module in PICTURES.items():
            drawn = module.draw(data)
            if drawn is not None:
                svg, png = render(drawn, "svg"), render(drawn, "png")
                pictures.append(Picture(name, module.alt(data), svg, png))
    return tuple(pictures)
