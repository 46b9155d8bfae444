"""A node, and what a witness says of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


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
    STOPPED = "stopped"
    """Its process was stopped, and runs no more until it is continued."""
    RUNNING = "running"
    """Its process is there and was not stopped: it may wait for a core, or for a disk."""
    UNKNOWN = "unknown"
    """The witness has nothing to say any more."""


@dataclass(frozen=True)
class Sign:
    """What a witness says of a node; it holds until the same witness says something else."""

    witness: str
    node_id: bytes
    kind: Kind
    seconds: float = 0.0
    """ANSWERED: the time that the answer took. SILENT, CUT: the time since the question."""
    why: str = ""
    """GONE: the reason, in words."""


class Witness(Protocol):
    """Looks at nodes, in whatever way. To a judge that hears several a node is silent if it is to all."""

    name: str

    def look(self, nodes: Sequence[Node], now: float) -> Iterable[Sign]:
        """Signs of these nodes since the last look; returns at once. Raises nothing."""
