"""The text to train on, and the order in which a run reads it.

Nothing is downloaded: the text is Python's own source code and documents, those of the lab where a node has
them, or any folder. It is one row of bytes, each document between two bytes END. Every 20th document is held
out: it is evaluated, never trained on.

The order has no state. Which bytes a rank reads in step k follows from the seed and k alone, so a run that is
stopped in the middle of an epoch goes on with the very bytes that would have come next.
"""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from model import END
from torch import Tensor

HELD_OUT = 20
"""One document of so many is held out."""

PACKAGED = frozenset({"test", "tests", "site-packages", "dist-packages", "idlelib", "lib2to3", "pydoc_data"})
"""Folders of Python's library that are no part of its text."""

SUFFIXES = (".py", ".md", ".rst", ".txt")
"""Files of a folder that count as text."""


def documents(text: str) -> Iterator[bytes]:
    """The documents of a text, always in the same order: `code`, `prose`, `all` of both, or a folder.

    `code` is Python's library. `prose` is the text of Python's help() and the lab's documents. Raises
    ValueError for a folder without text.
    """
    if text not in ("code", "prose", "all"):
        files = sorted(f for f in Path(text).rglob("*") if f.suffix in SUFFIXES and f.is_file())
        if not files:
            raise ValueError(f"{text}: no folder on this node that has files {', '.join(SUFFIXES)}")
        yield from (f.read_bytes() for f in files)
    if text in ("prose", "all"):
        from pydoc_data.topics import topics

        yield from (topic.encode() for _, topic in sorted(topics.items()))
        for folder in lab_documents():
            yield from (f.read_bytes() for f in sorted(folder.glob("*.md")))
    if text in ("code", "all"):
        library = Path(sysconfig.get_path("stdlib"))
        for file in sorted(library.rglob("*.py")):
            if not PACKAGED & set(file.relative_to(library).parts):
                yield file.read_bytes()


def lab_documents() -> list[Path]:
    """The lab's docs/ beside its code, which nodes have on PYTHONPATH; none in a container without it."""
    roots = {Path(entry).resolve().parents[1] for entry in os.environ.get("PYTHONPATH", "").split(":")
             if Path(entry).name == "probe"}  # fmt: skip
    return sorted(root / "docs" for root in roots if (root / "docs").is_dir())


@dataclass(frozen=True)
class Corpus:
    """Bytes to train on and bytes held out, each a row (N,) of uint8."""

    training: Tensor
    held_out: Tensor
    sha256: str
    """Of both: a run can only be resumed on the text that it began with."""


def read_corpus(text: str, most_bytes: int = 0) -> Corpus:
    """Read a text, at most so many bytes of it (0: all). Raises ValueError for one without two documents."""
    parts: tuple[list[bytes], list[bytes]] = ([], [])
    size = 0
    for number, document in enumerate(documents(text)):
        if most_bytes and size >= most_bytes:
            break
        kept = document.replace(bytes([END]), b"")[: most_bytes - size if most_bytes else None]
        size += len(kept)
        parts[number % HELD_OUT == HELD_OUT - 1].append(kept)
    if not parts[1] and len(parts[0]) > 1:
        parts[1].append(parts[0].pop())
    if not parts[1]:
        raise ValueError(f"{text}: one document is too few: one is trained on, another one evaluated")
    end = bytes([END])
    rows = [end + end.join(part) + end for part in parts]
    digest = hashlib.sha256(b"|".join(hashlib.sha256(row).digest() for row in rows)).hexdigest()
    training, held_out = (torch.frombuffer(bytearray(row), dtype=torch.uint8) for row in rows)
    return Corpus(training, held_out, digest)


@dataclass(frozen=True)
class Order:
    """The order in which a run reads its windows of `context` + 1 bytes, `rows` of them in each step.

    In an epoch every window comes once, in an order drawn anew from the seed and the number of the epoch. The
    windows' beginnings are drawn too, so that an epoch cuts the text elsewhere than the one before.
    """

    size: int
    """Bytes of the text."""
    context: int
    rows: int
    """Windows of a step, of all ranks together."""
    seed: int

    def __post_init__(self) -> None:
        if self.steps_per_epoch < 1:
            need = (self.rows + 1) * self.context + 1
            raise ValueError(
                f"the text has {self.size} bytes, a step needs {need}: take more text, or fewer rows"
            )

    @property
    def windows(self) -> int:
        """Windows of an epoch. One is given up for the moving of their beginnings."""
        return (self.size - 1) // self.context - 1

    @property
    def steps_per_epoch(self) -> int:
        return self.windows // self.rows

    def epoch(self, step: int) -> float:
        """Passes over the text that are done after `step` steps."""
        return step / self.steps_per_epoch

    def starts(self, step: int, rank: int = 0, ranks: int = 1) -> Tensor:
        """First bytes of the windows that a rank reads in step `step` (from 0).

        Raises ValueError for ranks that cannot share the rows.
        """
        if self.rows % ranks:
            raise ValueError(f"{self.rows} rows of a step cannot be shared by {ranks} ranks")
        epoch, place = divmod(step, self.steps_per_epoch)
        shift, order = _drawn(self.windows, self.context, self.seed, epoch)
        mine = order[place * self.rows : (place + 1) * self.rows][rank::ranks]
        return mine * self.context + shift


@lru_cache(maxsize=2)
def _drawn(windows: int, context: int, seed: int, epoch: int) -> tuple[int, Tensor]:
    """The shift and the order of the windows in one epoch."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    shift = int(torch.randint(context, (1,), generator=generator))
    return shift, torch.randperm(windows, generator=generator)


def windows(text: Tensor, starts: Tensor, context: int) -> tuple[Tensor, Tensor]:
    """The bytes from each start on, and those that follow each of them: two tensors (B, context) of int64."""
    rows = text[starts[:, None] + torch.arange(context + 1)].long()
    return rows[:, :-1], rows[:, 1:]
