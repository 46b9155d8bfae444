"""What `labctl report --json` prints."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ShownReport:
    """A report that was written."""

    job: str
    verdict: str | None
    folder: str
    page: str
    pictures: tuple[str, ...]
    control: str | None
    """The job that it is compared with."""
    missing: tuple[str, ...]
    """Names of what could not be learned, a line each."""
