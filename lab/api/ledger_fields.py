"""Fields of the events of a ledger, each with what reads it: a damaged one is as good as none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    service: str = ""
    """The lab's service, or the pod, that the node is; empty if unknown."""


@dataclass(frozen=True)
class SavedFile:
    """A file of a checkpoint, as it was on the node."""

    sha256: str | None
    size: Number | None
    """Bytes."""


@dataclass(frozen=True)
class LiveState:
    """The state of a rank, each tensor by its key: parameters of optimizers, the rest of their modules,
    trees."""

    tensors: Mapping[str, str]
    """Digests."""
    order: tuple[tuple[str, ...], ...] = ()
    """Keys of the parameters of each optimizer, in its order."""
    halves: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Digests of a parameter in half precision: rounded, or of one that is looked at before a step, in
    those that hold it without rounding."""
    moments: Mapping[str, str] = field(default_factory=dict)
    """Number of an optimizer -> digest of its own state; an empty text where it has none."""
    counters: Mapping[str, Number] = field(default_factory=dict)
    """The numbers in buffers that count."""
    sharded: bool = False
    """Each rank has a part of it."""
    why: str = ""
    """Reason for which it was not looked at."""
    aside: Mapping[str, str] = field(default_factory=dict)
    """Digests of the parameters of modules that no optimizer trains, by a key that means nothing."""


def _state(value: object) -> LiveState:
    known = mapping(value)
    return LiveState(
        _digests(known.get("tensors")),
        _order(known.get("order")),
        _many_digests(known.get("halves")),
        _digests(known.get("moments")),
        _amounts(known.get("counters")),
        is_true(known.get("sharded")),
        words(known.get("why")),
        _digests(known.get("aside")),
    )


def _workers(value: object) -> Mapping[int, Worker]:
    rows = [mapping(row) for row in value] if isinstance(value, list) else []
    return {
        rank: Worker(words(row.get("node_id")), integer(row.get("pid")), words(row.get("service")))
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


def _digests(value: object) -> Mapping[str, str]:
    return {str(key): digest for key, digest in mapping(value).items() if isinstance(digest, str)}


def _many_digests(value: object) -> Mapping[str, frozenset[str]]:
    return {str(key): known for key, row in mapping(value).items() if (known := texts(row)) is not None}


def _order(value: object) -> tuple[tuple[str, ...], ...]:
    return (
        tuple(tuple(map(str, row)) for row in value if isinstance(row, list))
        if isinstance(value, list)
        else ()
    )


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
Digests: TypeAlias = Annotated[frozenset[str] | None, texts]
"""Of tensors; None where they were not looked at."""
DigestOf: TypeAlias = Annotated[Mapping[str, str], _digests]
"""Key of a tensor -> its digest."""
RankState: TypeAlias = Annotated[LiveState, _state]
Integers: TypeAlias = Annotated[tuple[Number, ...] | None, numbers]
