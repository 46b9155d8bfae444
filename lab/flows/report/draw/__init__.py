"""The pictures of a report, drawn with matplotlib: each as SVG for the page and as PNG beside it."""

from __future__ import annotations

from lab.flows.report.draw.pictures import Picture, draw_pictures

__all__ = ["Picture", "draw_pictures"]
