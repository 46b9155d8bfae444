"""Documents of health: what agents report, what people and faults order, and what pages and alerts show.

The agents of lab/probe/raylab_health, which import nothing of lab, write `AgentReport` and read `Orders`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

from lab.api.base import Limits, Strict

Name: TypeAlias = Annotated[str, Limits(min_length=1, max_length=200)]
CheckName: TypeAlias = Annotated[str, Limits(min_length=1, max_length=100)]
Outcome: TypeAlias = Annotated[str, Limits(pattern="^(PASS|WARN|EVICT|UNKNOWN)$")]
"""PASS, WARN, EVICT, or UNKNOWN where the check could not tell."""
Sentence: TypeAlias = Annotated[str, Limits(max_length=1000)]

PASS, WARN, EVICT, UNKNOWN = "PASS", "WARN", "EVICT", "UNKNOWN"
"""States of a device; lab.daemons.health.model says what each means."""

CPU = "cpu"
"""The device that stands for a node without its GPUs."""

# What is asked


@dataclass(frozen=True)
class Result(Strict):
    """Result of one check of one device, as an agent reports it."""

    check: CheckName
    device: Name
    state: Outcome
    value: float | None = None
    unit: Annotated[str, Limits(max_length=40)] = ""
    message: Sentence = ""
    evidence: Annotated[Mapping[str, Sentence], Limits(max_length=50)] = field(default_factory=dict)
    at: float = 0.0
    """When it ended, on the node's clock; 0 when that is not known."""
    interval: Annotated[float, Limits(ge=0)] = 0.0
    """Seconds until it runs again."""
    worse_after: Annotated[int, Limits(ge=1, le=100)] = 1
    better_after: Annotated[int, Limits(ge=1, le=100)] = 2
    ordered: bool = False
    """An override said so, not the device: it is believed at once."""


@dataclass(frozen=True)
class Device(Strict):
    """A device of a node, as its agent sees it."""

    name: Name
    """UUID of a GPU, `gpu-0` where it is simulated, or `cpu`."""
    model: Annotated[str, Limits(max_length=200)] = ""


@dataclass(frozen=True)
class AgentReport(Strict):
    """`POST /health/report`: what the agent of a node knows."""

    node: Name
    boot: Annotated[str, Limits(max_length=100)]
    interval: Annotated[float, Limits(gt=0, le=3600)]
    devices: Annotated[tuple[Device, ...], Limits(min_length=1, max_length=100)]
    checks: Annotated[tuple[CheckName, ...], Limits(max_length=200)]
    """Those that are made of its devices."""
    address: Annotated[str, Limits(max_length=300)]
    results: Annotated[tuple[Result, ...], Limits(max_length=2000)]
    skipped: Annotated[Mapping[str, Sentence], Limits(max_length=200)]
    """Checks that cannot be made, and why."""


@dataclass(frozen=True)
class CheckRequest(Strict):
    """`POST /health/run`: check a node, or all; empty fields stand for all."""

    node: Annotated[str, Limits(max_length=200)] = ""
    check: Annotated[str, Limits(max_length=100)] = ""


@dataclass(frozen=True)
class Override(Strict):
    """`POST /health/override`: let a check of a device report this, whatever it finds: what a fault does."""

    node: Name
    device: Name
    check: CheckName
    state: Outcome
    message: Annotated[str, Limits(max_length=300)] = ""


@dataclass(frozen=True)
class Lift(Strict):
    """`POST /health/lift`: end an override."""

    node: Name
    device: Name
    check: CheckName


# What is answered


@dataclass(frozen=True)
class Orders:
    """Answer to a report: what its node is to do."""

    now: float
    run: tuple[str, ...]
    confirm: tuple[str, ...]
    overrides: tuple[Override, ...]
    peers: Mapping[str, str]
    """Node -> address, of those that report."""


@dataclass(frozen=True)
class CheckView:
    """One check of a device: its state, and its last result."""

    name: str
    state: str
    since: float
    last: str
    """State that its last result says."""
    value: float | None
    unit: str
    message: str
    evidence: Mapping[str, str]
    at: float
    interval: float
    ordered: bool


@dataclass(frozen=True)
class DeviceView:
    """One device, with the worst state of its checks."""

    node: str
    device: str
    model: str
    state: str
    reason: str
    message: str
    since: float
    heard: float
    checks: tuple[CheckView, ...]

    @property
    def takes_work(self) -> bool:
        """False while no new work may be placed here."""
        return self.state != EVICT


@dataclass(frozen=True)
class HealthView:
    """`GET /health`: every device of the lab."""

    now: float
    devices: tuple[DeviceView, ...]
    overrides: tuple[Override, ...]
    checks: Mapping[str, tuple[str, ...]]
    """Node -> checks that are made of its devices."""
    skipped: Mapping[str, Mapping[str, str]]
    """Node -> checks that it cannot make, and why."""


@dataclass(frozen=True)
class Ordered:
    """Answer to `CheckRequest`: node -> checks that it is going to make."""

    ordered: Mapping[str, tuple[str, ...]]
    now: float


@dataclass(frozen=True)
class Alert:
    """An alert that fires."""

    name: str
    severity: str
    since: float
    """Seconds since the epoch."""
    labels: Mapping[str, str]
    summary: str
    silenced: bool


@dataclass(frozen=True)
class Silence:
    """Time in which an alert is sent to nobody."""

    id: str
    alert: str
    until: float
    """Seconds since the epoch."""
