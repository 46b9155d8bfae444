"""The page: one HTML file with everything in it, from page.html.j2 and style.css; the pictures beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

from lab.api.base import Number
from lab.errors import UsageError
from lab.ext.report import labels
from lab.ext.report.documents import ShownReport
from lab.ext.report.draw import Picture, draw_pictures
from lab.ext.report.model import ReportData
from lab.faults import effect_of
from lab.host.quantities import plural
from lab.host.redaction import Redaction, of_this_machine
from lab.host.web import templates
from lab.version import __version__

PAGE = "report.html"
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
        share = f"{100 * part.seconds / total:.0f} %"
        yield part.key.replace("_", " "), labels.seconds(part.seconds), share, part.meaning


def _span(first: Number | None, last: Number | None) -> str:
    if first is None:
        return "no report"
    return f"{first}" if first == last or last is None else f"{first} to {last}"


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def write_report(data: ReportData, folder: Path, redaction: Redaction | None = None) -> ShownReport:
    """Draw and write everything into `folder`, which is made; files of an earlier report are replaced.

    `redaction` says what must not stand in it; by default the secrets and the name of this machine. Raises
    UsageError when the folder cannot be written.
    """
    data = without(data, redaction or of_this_machine())
    pictures = draw_pictures(data)
    files = {f"{picture.name}.png": picture.png for picture in pictures}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        (folder / PAGE).write_text(page(data, pictures), encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"the report cannot be written into {folder}: {error.strerror}", "choose another --output"
        ) from error
    return ShownReport(
        data.job, data.verdict or None, str(folder), str(folder / PAGE),
        tuple(str(folder / name) for name in files), data.control_job or None, data.missing,
    )  # fmt: skip


def without(data: ReportData, redaction: Redaction) -> ReportData:
    """Remove what nobody else is to read wherever a text of the report may hold it."""
    return dataclasses.replace(data, **{name: redaction.everything(getattr(data, name)) for name in TEXTS})


TEXTS = ("reason", "command", "moments", "checks", "environment", "missing", "checkpoint", "attempts")
"""Fields that hold texts of Ray, of a script, or of an error."""
