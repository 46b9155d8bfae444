"""Kueue's YAML from files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kueue.reading import Read, read
from lab.host.reading import named_text


def read_files(paths: Iterable[Path], namespace: str) -> Read:
    """Read these files as one set of objects; what is wrong in them is in the result.

    Raises NotFoundError and UsageError for what cannot be read at all.
    """
    return read(read_texts(paths), namespace)


def read_texts(paths: Iterable[Path]) -> tuple[tuple[str, str], ...]:
    """The name and the text of each file. Raises NotFoundError and UsageError."""
    return tuple(
        named_text(path, "file of queues", "name a YAML file with objects of Kueue") for path in paths
    )
