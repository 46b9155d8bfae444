"""What `labctl report --json` prints."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict


class ShownReport(TypedDict):
    """A report that was written; `control` is the job that it is compared with."""

    job: str
    verdict: str | None
    folder: str
    page: str
    pictures: Sequence[str]
    control: str | None
    missing: Sequence[str]
