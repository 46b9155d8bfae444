"""Documents of health: what agents report, what people and faults order, and what pages and alerts show.

The agents (`raylab_health`), which import nothing of lab, write `AgentReport` and read `Heard`.

A device is a GPU, or the rest of a node, which is called `cpu`. Its state is the worst of its checks':

| state | means |
| --- | --- |
| EVICT | broken: takes no work, and what runs there is moved |
| WARN | suspicious: avoided when there is another place |
| PASS | every check passed |
| UNKNOWN | nothing is known: its agent is silent, or no check could say anything |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from lab.api.base import Limits, Strict

Name: TypeAlias = Annotated[str, Limits(min_length=1, max_length=200)]
CheckName: TypeAlias = Annotated[str, Limits(min_length=1, max_length=100)]
Sentence: TypeAlias = Annotated[str, Limits(max_length=1000)]

PASS, WARN, EVICT, UNKNOWN = "PASS", "WARN", "EVICT", "UNKNOWN"

CPU = "cpu"
"""The device that stands for a node without its GPUs."""

# What is asked


@dataclass(frozen=True)
class Result(Strict):
    """What a check of a device found last."""

    name: CheckName
    state: Annotated[str, Limits(pattern="^(PASS|WARN|EVICT|UNKNOWN)$")]
    """UNKNOWN where the check could not tell, or cannot be made on that node."""
    message: Sentence = ""
    value: float | None = None
    unit: Annotated[str, Limits(max_length=40)] = ""
    at: float = 0.0
    """When it ended, on the node's clock; 0 when that is not known."""


@dataclass(frozen=True)
class Device(Strict):
    """A device of a node, as its agent sees it."""

    name: Name
    """UUID of a GPU, `gpu-0` where it is simulated, or `cpu`."""
    model: Annotated[str, Limits(max_length=200)] = ""
    checks: Annotated[tuple[Result, ...], Limits(max_length=200)] = ()


@dataclass(frozen=True)
class AgentReport(Strict):
    """`POST /health/report`: all that the agent of a node knows now."""

    node: Name
    boot: Annotated[str, Limits(max_length=100)]
    """Names the agent's life."""
    address: Annotated[str, Limits(max_length=300)]
    devices: Annotated[tuple[Device, ...], Limits(min_length=1, max_length=100)]


@dataclass(frozen=True)
class Symptom(Strict):
    """`POST /health/symptom`: what a check of a device says while a fault lasts; PASS ends it."""

    node: Name
    device: Name
    check: CheckName
    state: Annotated[str, Limits(pattern="^(PASS|WARN|EVICT)$")]
    message: Annotated[str, Limits(max_length=300)] = ""
    until: float | None = None
    """Time at which it ends by itself, for a fault that nobody reverts; seconds since the epoch."""


# What is answered


@dataclass(frozen=True)
class Heard:
    """Answer to a report."""

    now: float
    peers: Mapping[str, str]
    """Node -> address, of the others that report."""


@dataclass(frozen=True)
class DeviceView:
    """One device, with the worst state of its checks."""

    node: str
    """Name of the service, such as `ray-worker-0`."""
    device: str
    model: str
    state: str
    reason: str
    """Name of the check that decides, or `silent`; empty when all passed."""
    message: str
    since: float
    """Time of the change to this state, in seconds since the epoch."""
    heard: float
    """Time of the node's last report."""
    checks: tuple[Result, ...]
    """By name."""

    @property
    def takes_work(self) -> bool:
        """False while no new work may be placed here."""
        return self.state != EVICT


@dataclass(frozen=True)
class HealthView:
    """`GET /health`: every device of the lab."""

    now: float
    devices: tuple[DeviceView, ...]
    symptoms: tuple[Symptom, ...]


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
