"""What of an event's payload several readers want."""

from __future__ import annotations

from collections.abc import Mapping

from lab.api.base import Number
from lab.api.ledger import Payload, Reported, WithMetrics
from lab.api.ledger_fields import SavedFile
from lab.api.lenient import number
from lab.evidence.ledger.model import Files

ROUND, COUNTED = "round", "optimizer step"
"""Progress that the recorder counts by itself: rounds of boosted trees, and steps of optimizers."""


def progress_of(payload: Payload, key: str | None) -> Number | None:
    """Return the metric `key` of an event, or the count of that name; None where it has none."""
    if key in (ROUND, COUNTED):
        if not isinstance(payload, Reported):
            return None
        return payload.rounds if key == ROUND else payload.optimizer_steps
    return number(payload.metrics.get(key)) if key and isinstance(payload, WithMetrics) else None


def manifest_of(files: Mapping[str, SavedFile] | None) -> Files | None:
    """Return the SHA-256 of every file by its path; None where one is not known."""
    known = {path: file.sha256 for path, file in (files or {}).items() if file.sha256 is not None}
    return known if files is not None and len(known) == len(files) else None
