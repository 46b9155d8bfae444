"""Plain data of the allocation. Resources are as Ray counts them; memory is in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["infeasible", "others", "starting"]

SHOWN_HOLDERS = 4
"""Holders that a sentence names; the others are counted."""


@dataclass(frozen=True)
class Holding:
    """Resources of one service that a part of a job holds."""

    job: str
    """The submission id, or `interactive-<Ray's job id>` for a driver that was not submitted."""
    service: str
    resources: Mapping[str, float]
    what: str
    """The part: `entrypoint`, `rank 0`, `trial objective`, `actor Counter`, `task double`, `reserved`."""


@dataclass(frozen=True)
class Waiting:
    """A job, or a part of one, that waits for resources.

    `infeasible`: no node could ever meet the demand, so it waits until one that can joins.
    `others`: the nodes could, but others hold what it needs.
    `starting`: nothing is in its way; Ray is preparing its environment or its process.
    """

    job: str
    kind: Kind
    what: str
    """The part that waits: `entrypoint`, `ranks`, `placement group`, `actor Counter`, `task double`."""
    demand: Mapping[str, float]
    """Resources that each of `count` asks of one node."""
    count: int
    reason: str
    """The shortage in one line, without the holders."""
    holders: tuple[Holding, ...] = ()
    short: tuple[str, ...] = ()
    """The resources that are missing."""

    @property
    def held_by(self) -> str:
        """Holders of what is missing: `a (entrypoint, 1 GPU on ray-worker-0)`; empty when nobody does."""
        shown = [
            f"{h.job} ({h.what}: {amounts({r: h.resources.get(r, 0.0) for r in self.short})} on {h.service})"
            for h in self.holders[:SHOWN_HOLDERS]
        ]
        more = len(self.holders) - len(shown)
        return ", ".join([*shown, *([f"{more} more"] if more else [])])

    @property
    def text(self) -> str:
        """The reason and the holders, in one line."""
        return f"{self.reason}; held by {self.held_by}" if self.holders else self.reason


@dataclass(frozen=True)
class GpuLoad:
    """One GPU of a node. `share` is how much of it jobs were given: 1.0 is all of it."""

    index: int
    name: str
    simulated: bool
    share: float
    utilization: float | None = None
    """Percent of the time in which it computed; None when it is simulated or cannot be read."""
    memory_used: int | None = None
    """Bytes."""
    memory_total: int | None = None
    """Bytes."""


@dataclass(frozen=True)
class NodeLoad:
    """Load of one living node, and what causes it."""

    service: str
    cpu_percent: float | None
    """CPU of all processes of the node; 100 is one core. None while Ray has not measured it."""
    cores: int | None
    """Cores that the node's machine has."""
    memory_used: int | None
    """Bytes: of the container, or of the node's processes where nodes share a host."""
    memory_limit: int | None
    """Bytes: of the container, or of the host."""
    shares_host: bool
    """True for one of several nodes on a host."""
    gpus: tuple[GpuLoad, ...]
    offers: Mapping[str, float]
    held: Mapping[str, float]
    holdings: tuple[Holding, ...]


@dataclass(frozen=True)
class TopView:
    """The view of `labctl top`: the nodes, and who waits. `at` is in seconds since the epoch."""

    at: float
    nodes: tuple[NodeLoad, ...]
    waiting: tuple[Waiting, ...]
    notes: tuple[str, ...] = field(default=())
    """Remarks that a reader of the numbers needs."""
    health: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Service -> state of its worst device, and the reason; empty where nobody checks."""


def amounts(resources: Mapping[str, float]) -> str:
    """`8 CPU and 1 GPU`: CPU and GPU first, memory in GB; `nothing` for none."""
    named = {k: v for k, v in resources.items() if v > 0}
    order = sorted(
        named, key=lambda name: (["CPU", "GPU"].index(name) if name in ("CPU", "GPU") else 2, name)
    )
    words = [
        f"{named[name] / 1e9:.3g} GB {name}" if name.endswith("memory") else f"{named[name]:g} {name}"
        for name in order
    ]
    return " and ".join(words) or "nothing"
