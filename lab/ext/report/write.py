"""Writes a report into a folder: the page, and every picture as PNG beside it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from lab.errors import UsageError
from lab.ext.report.draw import draw_pictures
from lab.ext.report.model import ReportData
from lab.ext.report.page import page
from lab.host.redaction import Redaction, of_this_machine

PAGE = "report.html"


@dataclass(frozen=True)
class Written:
    """The files of a report."""

    folder: Path
    page: Path
    pictures: tuple[Path, ...]
    missing: tuple[str, ...]
    """Names of what could not be learned, a line each."""


def write_report(data: ReportData, folder: Path, redaction: Redaction | None = None) -> Written:
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
    return Written(folder, folder / PAGE, tuple(folder / name for name in files), data.missing)


def without(data: ReportData, redaction: Redaction) -> ReportData:
    """Remove what nobody else is to read wherever a text of the report may hold it."""
    return dataclasses.replace(data, **{name: redaction.everything(getattr(data, name)) for name in TEXTS})


TEXTS = ("reason", "command", "moments", "checks", "environment", "missing", "checkpoint", "attempts")
"""Fields that hold texts of Ray, of a script, or of an error."""
