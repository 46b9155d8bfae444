"""The documents by which the gateway of a class says who somebody is, and breaks what she asks for; and what
labctl says of somebody who was removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from lab.api.base import Limits, Strict

FAULTS = ("kill", "stop", "rank-kill", "gpu-sick")
"""Faults that the gateway injects: they reach nothing beside the node that one job trains on."""

NOT_YET = "wait until it trains"
"""Advice of a refusal that ends by itself."""

HOUR = 3600
Seconds: TypeAlias = Annotated[int, Limits(ge=0, le=HOUR)] | Annotated[float, Limits(ge=0, le=HOUR)]
"""Times of a fault, which keeps the whole class from others."""


@dataclass(frozen=True)
class Bearer:
    """The person whose token a request bears."""

    name: str
    role: str


@dataclass(frozen=True)
class FaultOrder(Strict):
    """`POST /workloads/NAMESPACE/NAME/fault`: break a node under a job."""

    kind: str = FAULTS[0]
    target: Annotated[str, Limits(max_length=80)] = ""
    """The service; empty: the one that runs the fewest other jobs."""
    leave_down: bool = False
    """Leave it down until somebody starts it."""
    after_epoch: int | None = None
    after_seconds: Seconds | None = None
    duration: Seconds | None = None


@dataclass(frozen=True)
class FaultBegun:
    """Its answer: the service that is broken."""

    killed: str


@dataclass(frozen=True)
class FaultSeen:
    """`GET` of the same: how far it is."""

    killed: str
    lines: tuple[str, ...]
    """What labctl has said so far."""
    code: int | None
    """labctl's exit code; None while it goes on."""
    printed: str
    """The document that it printed in the end: the receipt, as JSON."""


@dataclass(frozen=True)
class Removal:
    """What became of a person who was removed."""

    name: str
    stopped: tuple[str, ...]
    """Jobs that were stopped."""
    objects: int
    """Stored objects of hers: those that were kept, or deleted."""
    deleted: bool
