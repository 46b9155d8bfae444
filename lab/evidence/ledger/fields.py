"""What of an event's payload several readers want."""

from __future__ import annotations

from collections.abc import Mapping

from lab.api.base import Number
from lab.api.ledger import Payload, WithMetrics
from lab.api.ledger_fields import SavedFile
from lab.api.lenient import number
from lab.evidence.ledger.model import Files


def progress_of(payload: Payload, key: str | None) -> Number | None:
    """Return the metric `key` of an event; None where it has none."""
    return number(payload.metrics.get(key)) if key and isinstance(payload, WithMetrics) else None


def manifest_of(files: Mapping[str, SavedFile] | None) -> Files | None:
    """Return the SHA-256 of every file by its path; None where one is not known."""
    known = {path: file.sha256 for path, file in (files or {}).items() if file.sha256 is not None}
    return known if files is not None and len(known) == len(files) else None
