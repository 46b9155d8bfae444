"""Fields of the events of a ledger, each with what reads it: a damaged one is as good as none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from lab.api.base import Number
from lab.api.lenient import integer, is_true, mapping, number, numbers, text, texts, whole, words


@dataclass(frozen=True)
class Worker:
    """A rank, as the controller of Ray Train placed it."""

    node_id: str
    """Empty if unknown."""
    pid: int | None
    """Its process on that node."""


@dataclass(frozen=True)
class SavedFile:
    """A file of a checkpoint, as it was on the node."""

    sha256: str | None
    size: Number | None
    """Bytes."""


def _workers(value: object) -> Mapping[int, Worker]:
    rows = [mapping(row) for row in value] if isinstance(value, list) else []
    return {
        rank: Worker(words(row.get("node_id")), integer(row.get("pid")))
        for row in rows
        if (rank := integer(row.get("rank"))) is not None
    }


def _files(value: object) -> Mapping[str, SavedFile] | None:
    if not isinstance(value, dict):
        return None
    rows = {path: mapping(row) for path, row in value.items()}
    return {path: SavedFile(text(row.get("sha256")), number(row.get("size"))) for path, row in rows.items()}


def _ranks(value: object) -> tuple[int | None, int | None]:
    least, most = (value[0], value[-1]) if isinstance(value, list) and value else (None, value)
    return integer(least), integer(most)


def _amounts(value: object) -> Mapping[str, Number]:
    return {str(name): n for name, amount in mapping(value).items() if (n := number(amount)) is not None}


def _names(value: object) -> tuple[str, ...] | None:
    return tuple(map(str, value)) if isinstance(value, list) else None


def _kept(value: object) -> int | Literal["all"] | None:
    return "all" if value is None else whole(value)


def _facts(value: object) -> Mapping[str, object] | None:
    return value if isinstance(value, dict) else None


Flag: TypeAlias = Annotated[bool, is_true]
Integer: TypeAlias = Annotated[int | None, integer]
Whole: TypeAlias = Annotated[int | None, whole]
Real: TypeAlias = Annotated[Number | None, number]
Text: TypeAlias = Annotated[str | None, text]
Words: TypeAlias = Annotated[str, words]
Values: TypeAlias = Annotated[Mapping[str, object], mapping]
Milliseconds: TypeAlias = Annotated[tuple[Number, ...] | None, numbers]
Names: TypeAlias = Annotated[tuple[str, ...] | None, _names]
Amounts: TypeAlias = Annotated[Mapping[str, Number], _amounts]
Facts: TypeAlias = Annotated[Mapping[str, object] | None, _facts]
Kept: TypeAlias = Annotated[int | Literal["all"] | None, _kept]
Ranks: TypeAlias = Annotated[tuple[int | None, int | None], _ranks]
"""Least and most; no least where their number is fixed."""
Workers: TypeAlias = Annotated[Mapping[int, Worker], _workers]
"""By rank."""
SavedFiles: TypeAlias = Annotated[Mapping[str, SavedFile] | None, _files]
"""Path relative to the checkpoint -> the file; None where it is not known."""
Fingerprints: TypeAlias = Annotated[frozenset[str] | None, texts]
"""Of tensors; None where they were not looked at."""
