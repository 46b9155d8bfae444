"""The documents that `labctl export` prints with --json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lab.errors import ManifestError

ERROR, WARNING, NOTE = "error", "warning", "note"
LEVELS = (ERROR, WARNING, NOTE)


@dataclass(frozen=True)
class Finding:
    """One thing found in a manifest. `level` is error (it cannot work), warning (it may surprise) or note."""

    rule: str
    level: str
    file: str
    line: int
    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        """File, line, path, message and rule, in one line."""
        path = f"{self.path}: " if self.path else ""
        return f"{self.file}:{self.line}: {path}{self.message} [{self.rule}]"


@dataclass(frozen=True)
class LintReport:
    """What `export check` says of a set of manifests: findings, errors first."""

    good: bool
    """True without an error."""
    objects: Mapping[str, int]
    """Kind -> how many, in the order of the files."""
    findings: tuple[Finding, ...]
    not_counted: tuple[str, ...] = ()
    """Kinds of queued objects whose pods were not held against a quota."""
    schema: Literal["lint/1"] = "lint/1"

    def refuse(self, before: str = "") -> None:
        """Raise ManifestError, which says the first error after these words, when there is one."""
        errors = [finding for finding in self.findings if finding.level == ERROR]
        if errors:
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            raise ManifestError(f"{before}{errors[0]}{more}", errors[0].hint)


@dataclass(frozen=True)
class ExportDocument:
    """What `export kubernetes` and `export compose` wrote."""

    folder: str
    files: tuple[str, ...]
    schema: Literal["export/1"] = "export/1"
