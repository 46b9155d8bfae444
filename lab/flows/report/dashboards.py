"""The dashboards as one page of charts, drawn from Prometheus' answers: for labs without Grafana."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.cluster.prometheus import Prometheus, Series
from lab.errors import UsageError
from lab.flows.report.draw.style import (
    COLOURS,
    DASHES,
    FAULT,
    GRID,
    INK,
    QUIET,
    figure,
    legend,
    of,
    render,
    styled,
)
from lab.host.files import ROOT
from lab.host.quantities import format_duration, plural
from lab.host.reading import parse_json
from lab.host.web import clock, templates
from lab.version import __version__

DASHBOARDS = ROOT / "compose" / "grafana" / "dashboards"
ORDER = ("lab", "queues", "health")

PAGE = "dashboards.html"

POINTS = 240
"""Values of a line at most."""

SCRAPE_SECONDS = 5.0

MOST_LINES = 8
"""Lines of a chart; of more, those with the highest last value are drawn."""

WIDTH, HEIGHT = 4.6, 2.5
"""Inches of a chart, so that its letters can be read on a telephone and on half of a screen."""

HALF, WHOLE = 20, 48
"""Characters of a line's name that fit half of a chart's width, and all of it."""

THEMED = {INK: "var(--ink)", QUIET: "var(--quiet)", GRID: "var(--line)", FAULT: "var(--bad)"}
"""Colour of a drawing -> that of the page, which has a light and a dark one."""

UNITS: Mapping[str, tuple[float, str]] = {
    "percentunit": (100.0, "%"),
    "percent": (1.0, "%"),
    "bytes": (2.0**-20, "MiB"),
    "celsius": (1.0, "°C"),
    "watt": (1.0, "W"),
    "ms": (1.0, "ms"),
    "s": (1.0, "s"),
}
"""Grafana's unit -> what values are multiplied by, and its name; values of others are shown as they are."""

Spans = tuple[tuple[float, float], ...]
"""Begin and end of each, in seconds since the epoch."""


@dataclass(frozen=True)
class Window:
    """The time that is shown, in seconds since the epoch."""

    start: float
    end: float

    @property
    def step(self) -> float:
        """Seconds between two values."""
        return max(SCRAPE_SECONDS, (self.end - self.start) / POINTS)


@dataclass(frozen=True)
class Panel:
    """One panel as the page shows it: a number, or a drawing with its text alternative."""

    title: str
    description: str
    columns: int
    """Width in 24ths of the page."""
    value: str = ""
    svg: str = ""
    alt: str = ""
    more: int = 0
    """Lines that are not drawn."""


@dataclass(frozen=True)
class Dashboard:
    """One dashboard with its panels in the order of reading."""

    title: str
    description: str
    panels: tuple[Panel, ...]


def write_dashboards(prometheus: Prometheus, folder: Path, window: Window, lab: str) -> Path:
    """Draw every dashboard of compose/grafana into one page in `folder`; returns its path.

    Raises LabDownError where Prometheus does not answer, UsageError where the page cannot be written.
    """
    documents = [parse_json((DASHBOARDS / f"{name}.json").read_text(encoding="utf-8")) for name in ORDER]
    with styled():
        dashboards = tuple(_dashboard(document, prometheus, window) for document in documents)
    text = (
        templates(Path(__file__).parent)
        .get_template("dashboards.html.j2")
        .render(
            lab=lab,
            dashboards=dashboards,
            begin=clock(window.start),
            end=clock(window.end),
            version=__version__,
        )
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / PAGE).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write into {folder}: {error.strerror}", "choose another --output"
        ) from error
    return folder / PAGE


def _dashboard(document: Mapping[str, Any], prometheus: Prometheus, window: Window) -> Dashboard:
    faults = tuple(
        span
        for annotation in document["annotations"]["list"]
        for series in prometheus.over(annotation["expr"], window.start, window.end, window.step)
        for span in spans(series, window.step)
    )
    places = sorted(document["panels"], key=lambda panel: (panel["gridPos"]["y"], panel["gridPos"]["x"]))
    panels = tuple(_panel(panel, prometheus, window, faults) for panel in places)
    return Dashboard(document["title"], document["description"], panels)


def _panel(panel: Mapping[str, Any], prometheus: Prometheus, window: Window, faults: Spans) -> Panel:
    scale, unit = UNITS.get(panel["fieldConfig"]["defaults"].get("unit", ""), (1.0, ""))
    lines = {
        name_of(target.get("legendFormat", ""), series.labels): [(at, value * scale) for at, value in points]
        for target in panel["targets"]
        for series in prometheus.over(target["expr"], window.start, window.end, window.step)
        if (points := [point for point in series.points if math.isfinite(point[1])])
    }
    about = panel["title"], panel.get("description", ""), panel["gridPos"]["w"]
    if panel["type"] == "stat":
        last = next((amount(points[-1][1], unit) for points in lines.values()), "no data")
        return Panel(*about, value=last)
    highest = sorted(lines, key=lambda name: -lines[name][-1][1])
    drawn = {name: lines[name] for name in lines if name in highest[:MOST_LINES]}
    svg = _draw(drawn, unit, panel, window, faults) if drawn else ""
    return Panel(*about, svg=svg, alt=_alt(panel["title"], drawn, unit), more=len(lines) - len(drawn))


def name_of(form: str, labels: Mapping[str, str]) -> str:
    """The name of a line, by a dashboard's legend such as `{{service}} used`; else its labels."""
    if not form:
        return " ".join(labels.values()) or "value"
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda match: labels.get(match[1], ""), form).strip() or "value"


def spans(series: Series, step: float) -> Iterator[tuple[float, float]]:
    """The times in which a series is above zero."""
    begin: float | None = None
    last = 0.0
    for at, value in series.points:
        if value > 0 and (begin is None or at - last > 1.5 * step):
            if begin is not None:
                yield begin, last + step
            begin = at
        elif value <= 0 and begin is not None:
            yield begin, at
            begin = None
        last = at
    if begin is not None:
        yield begin, last + step


def amount(value: float, unit: str) -> str:
    """A value with its unit, as a person reads it."""
    return format_duration(value) if unit == "s" and value >= 60 else f"{value:,.4g} {unit}".strip()


def _draw(
    lines: Mapping[str, list[tuple[float, float]]],
    unit: str,
    panel: Mapping[str, Any],
    window: Window,
    faults: Spans,
) -> str:
    defaults = panel["fieldConfig"]["defaults"]
    stepped = defaults.get("custom", {}).get("lineInterpolation") == "stepAfter"
    columns = 2 if all(len(name) <= HALF for name in lines) else 1
    picture = figure(HEIGHT + 0.17 * -(-len(lines) // columns), WIDTH)
    axes = picture.subplots()
    for place, (name, points) in enumerate(lines.items()):
        axes.plot(
            *zip(*((_minutes(at, window), value) for at, value in _broken(points, window.step)), strict=True),
            color=of(COLOURS, place), linestyle=of(DASHES, place), label=_short(name),
            drawstyle="steps-post" if stepped else "default",
        )  # fmt: skip
    for begin, end in faults:
        axes.axvspan(_minutes(begin, window), _minutes(end, window), color=FAULT, alpha=0.18, linewidth=0)
    axes.set_xlim(_minutes(window.start, window), 0)
    axes.set_xlabel("minutes ago")
    axes.xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    values = [value for points in lines.values() for _, value in points]
    if defaults.get("min") == 0 or min(values) >= 0:
        axes.set_ylim(bottom=0, top=None if any(values) else 1)
    axes.set_ylabel(unit)
    legend(picture, (axes,), "lower left", columns)
    return themed(render(picture, "svg", dark=False).decode())


def _minutes(at: float, window: Window) -> float:
    return (at - window.end) / 60


def _broken(points: Iterable[tuple[float, float]], step: float) -> Iterator[tuple[float, float]]:
    """The points, with a gap where values are missing."""
    before: float | None = None
    for at, value in points:
        if before is not None and at - before > 1.5 * step:
            yield before + step, math.nan
        yield at, value
        before = at


def _short(name: str) -> str:
    """A name that fits a chart: of a long one its two ends."""
    return name if len(name) <= WHOLE else f"{name[: WHOLE // 2]}…{name[-WHOLE // 2 :]}"


def themed(svg: str) -> str:
    """A drawing for the page itself: without what comes before it, on no ground, in the page's colours."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"fill: (#ffffff|white)", "fill: none", svg)
    for colour, variable in THEMED.items():
        svg = re.sub(rf"{colour}\b", variable, svg, flags=re.IGNORECASE)
    return re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)


def _alt(title: str, lines: Mapping[str, list[tuple[float, float]]], unit: str) -> str:
    """The last value of each line, in words."""
    last = ", ".join(f"{name} {amount(points[-1][1], unit)}" for name, points in lines.items())
    return f"{title}, {plural(len(lines), 'line')}. Last: {last}." if last else f"{title}: no data."
