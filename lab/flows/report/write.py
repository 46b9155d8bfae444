"""Writes a report into a folder: the page, and every picture as PNG beside it."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import UsageError
from lab.flows.report.draw import draw_pictures
from lab.flows.report.model import ReportData
from lab.flows.report.page import page, private

PAGE = "report.html"


@dataclass(frozen=True)
class Written:
    """The files of a report."""

    folder: Path
    page: Path
    pictures: tuple[Path, ...]
    missing: tuple[str, ...]
    """Names of what could not be learned, a line each."""


def write_report(data: ReportData, folder: Path, hidden: Sequence[str] | None = None) -> Written:
    """Draw and write everything into `folder`, which is made; files of an earlier report are replaced.

    `hidden` are words that must not stand in it; by default the machine's name. Raises UsageError when the
    folder cannot be written.
    """
    words = (socket.gethostname(),) if hidden is None else tuple(hidden)
    data = without(data, tuple(word for word in words if len(word) > 3))
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


def without(data: ReportData, hidden: Sequence[str]) -> ReportData:
    """Remove folders of the machine and these words wherever a text of the report may hold them."""
    return dataclasses.replace(data, **{name: _clean(getattr(data, name), hidden) for name in TEXTS})


TEXTS = ("reason", "command", "moments", "checks", "environment", "missing", "checkpoint", "attempts")
"""Fields that hold texts of Ray, of a script, or of an error."""


def _clean(value: object, hidden: Sequence[str]) -> Any:
    if isinstance(value, str):
        return private(value, hidden)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        texts = {name: _clean(part, hidden) for name, part in vars(value).items()}
        return dataclasses.replace(value, **texts)
    if isinstance(value, (tuple, list)):
        return tuple(_clean(content, hidden) for content in value)
    return value
