"""The documents that `labctl export` prints with --json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from typing_extensions import TypedDict

from lab.api.base import plain

if TYPE_CHECKING:
    from lab.ext.kubernetes.lint import LintReport


class ShownFinding(TypedDict):
    """One thing that is wrong with a manifest, or may surprise."""

    rule: str
    level: str
    file: str
    line: int
    path: str
    message: str
    hint: str


class ShownFindings(TypedDict):
    """Findings on a set of manifests, by kind how many there are, and what could not be asked.

    `not_counted` has the kinds of queued objects whose pods were not held against a quota.
    """

    objects: Mapping[str, int]
    findings: Sequence[ShownFinding]
    not_counted: Sequence[str]
    not_asked: Sequence[str]


class LintDocument(ShownFindings):
    """What `export check` says."""

    schema: Literal["lint/1"]
    good: bool


class ExportDocument(ShownFindings):
    """What `export kubernetes` says."""

    schema: Literal["export/1"]
    folder: str
    files: Sequence[str]


def findings(report: LintReport) -> ShownFindings:
    """Return what `export` says of manifests."""
    return {
        "objects": dict(report.objects),
        "findings": plain(report.findings),
        "not_counted": list(report.not_counted),
        "not_asked": list(report.not_asked),
    }
