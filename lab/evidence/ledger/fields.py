"""Reads the fields of events: values of the wrong type are as good as none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.evidence.ledger.events import Number, number
from lab.evidence.ledger.model import Files


def progress_of(fields: Mapping[str, Any], key: str | None) -> Number | None:
    """Return the metric `key` of an event; None where it has none."""
    return number(mapping(fields.get("metrics")).get(key)) if key else None


def files_of(value: object) -> Files | None:
    """Return the manifest of path -> {"sha256", "size"}, as the probe writes it; None for anything else."""
    if not isinstance(value, dict):
        return None
    sums = {path: entry.get("sha256") if isinstance(entry, dict) else None for path, entry in value.items()}
    files = {path: sha256 for path, sha256 in sums.items() if isinstance(sha256, str)}
    return files if len(files) == len(sums) else None


def texts(value: object) -> frozenset[str] | None:
    """Return a list of texts as a set; None for anything else."""
    known = isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    return frozenset(value) if known and isinstance(value, list) else None


def mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def text(value: object) -> str | None:
    """Return a text; None for anything else."""
    return value if isinstance(value, str) else None


def whole(value: object) -> int | None:
    """Return a whole number; None for anything else."""
    whole_number = number(value)
    return whole_number if isinstance(whole_number, int) else None
