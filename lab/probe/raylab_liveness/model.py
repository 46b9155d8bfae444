"""A node, and what its raylet shows of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Node:
    """A node that the head believes to be alive."""

    node_id: bytes
    name: str
    address: str
    """`HOST:PORT` of its raylet."""
    head: bool = False
    """It is the head's own: never judged, and the measure for the others."""


class Kind(Enum):
    """Kinds of signs."""

    ANSWERED = "answered"
    SILENT = "silent"
    """A question waits for its answer."""
    CUT = "cut"
    """The connection has broken, and another one is not there yet."""
    GONE = "gone"
    """Nobody listens at its address: certain."""


@dataclass(frozen=True)
class Sign:
    """What was seen of a node; it holds until something else is seen."""

    node_id: bytes
    kind: Kind
    seconds: float = 0.0
    """ANSWERED: the time that the answer took. SILENT, CUT: the time since the question."""
    why: str = ""
    """GONE: the reason, in words."""
