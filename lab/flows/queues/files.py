"""Kueue's YAML from files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lab.errors import NotFoundError, UsageError
from lab.host.reading import TooLargeError, read_text
from lab.queue.reading import Read, read


def read_files(paths: Iterable[Path], namespace: str) -> Read:
    """Read these files as one set of objects; what is wrong in them is in the result.

    Raises NotFoundError and UsageError for what cannot be read at all.
    """
    return read(read_texts(paths), namespace)


def read_texts(paths: Iterable[Path]) -> tuple[tuple[str, str], ...]:
    """The name and the text of each file. Raises NotFoundError and UsageError."""
    texts = []
    for path in paths:
        try:
            texts.append((str(path), read_text(path)))
        except TooLargeError as error:
            raise UsageError(f"{path} is {error.strerror}: no file of queues") from error
        except OSError as error:
            raise NotFoundError(f"{path}: {error.strerror}", "a YAML file with objects of Kueue") from error
        except ValueError as error:
            raise UsageError(f"{path}: {error}") from error
    return tuple(texts)
