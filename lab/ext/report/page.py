"""The page: one HTML file with everything in it, from page.html.j2 and style.css."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from lab.api.base import Number
from lab.ext.report import labels
from lab.ext.report.draw import Picture
from lab.ext.report.model import ReportData
from lab.faults import effect_of
from lab.host.quantities import plural
from lab.host.web import templates
from lab.version import __version__

LIKENESS = {True: "same curves", False: "other curves", None: "not comparable"}

Rows = Iterator[tuple[str, ...]]
"""Rows of a table, cell by cell."""


def page(data: ReportData, pictures: Iterable[Picture]) -> str:
    """The report as HTML, complete in itself."""
    environment = templates(Path(__file__).parent)
    environment.filters["sentence"] = _sentence
    return environment.get_template("page.html.j2").render(
        data=data,
        pictures={picture.name: picture for picture in pictures},
        head=labels.HEADLINES[data.headline],
        done_to=effect_of(data.fault) if data.fault else "",
        facts=tuple(_facts(data)),
        moments=[(m.label, labels.after(m.seconds), m.meaning) for m in data.moments],
        attempts=tuple(_attempts(data)),
        metrics=tuple(_metrics(data)),
        repeated=_repeated(data),
        parts=tuple(_parts(data)),
        version=__version__,
    )


def _facts(data: ReportData) -> Rows:
    """Label, value and note of each figure at the head of the page."""
    first = next((m.seconds for m in data.moments if m.key == "first_report"), None)
    if first is not None:
        yield "training went on after", labels.seconds(first), "from the fault to the next report"
    lost, unit = data.lost
    if lost is not None:
        done = "nothing" if lost == 0 else plural(lost, unit)
        yield "work done twice", done, "since the last checkpoint"
    if data.checks:
        asked = [check for check in data.checks if not check.skipped]
        passed = sum(check.passed for check in asked)
        yield "checks passed", f"{passed} of {len(asked)}", "each is listed below"
    if data.curves is not None:
        value = "equal bit for bit" if data.curves.exact else LIKENESS[data.curves.equal]
        yield "against the control run", value, "the same training without a fault"
    if data.status:
        yield "the job", data.status, "as Ray says"


def _attempts(data: ReportData) -> Rows:
    for a in data.attempts:
        yield (
            f"attempt {a.attempt}",
            ", ".join(f"rank {rank}: {service}" for rank, service in enumerate(a.nodes)) or "not known",
            _span(a.first_epoch, a.last_epoch),
            labels.after(a.started_at),
            labels.after(a.ended_at),
        )


def _metrics(data: ReportData) -> Rows:
    """The last value of each metric, and of its control run where there is one."""
    for metric in data.metrics:
        last = f"{metric.lines[-1].points[-1][1]:.6g}"
        control = f"{metric.control[-1][1]:.6g}" if metric.control else "–"
        yield (metric.name, last, control) if data.control_job else (metric.name, last)


def _repeated(data: ReportData) -> str:
    """The epochs that were done twice; empty without any."""
    if data.repeated is None:
        return ""
    begin, end = data.repeated
    return f"{data.epoch_key} {begin}" if begin == end else f"{data.epoch_key}s {begin} to {end}"


def _parts(data: ReportData) -> Rows:
    total = sum(part.seconds for part in data.parts) or 1.0
    for part in data.parts:
        yield part.label, labels.seconds(part.seconds), f"{100 * part.seconds / total:.0f} %", part.meaning


def _span(first: Number | None, last: Number | None) -> str:
    if first is None:
        return "no report"
    return f"{first}" if first == last or last is None else f"{first} to {last}"


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
