"""Zip archives as Food-11 is published, with pictures of a few bytes."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping

from lab.ext.course.datasets import food11


def entries() -> Iterator[str]:
    """The name of every picture, as published: `training/3_12.jpg`."""
    for split, counts in food11.COUNTS.items():
        for number, count in enumerate(counts):
            yield from (f"{split}/{number}_{index}.jpg" for index in range(count))


def archive(names: Iterator[str] | None = None, added: Mapping[str, bytes] | None = None) -> bytes:
    """A zip of these pictures, each with its own name as content, and of what is added."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as made:
        for name in names or entries():
            made.writestr(name, name)
        for name, content in (added or {}).items():
            made.writestr(name, content)
    return held.getvalue()
