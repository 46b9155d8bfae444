"""The words of health, and what agents, board and readers hand to each other.

A device is a GPU, or the rest of a node, which is called `cpu`. Its state is the worst of its checks':

| state | means |
| --- | --- |
| EVICT | broken: takes no work, and what runs there is moved |
| WARN | suspicious: avoided when there is another place |
| UNKNOWN | nothing is known: its agent is silent, or no check could say anything |
| PASS | every check passed |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.api.health import EVICT, PASS, UNKNOWN, WARN, Result

BADNESS: Mapping[str, int] = {UNKNOWN: 0, PASS: 1, WARN: 2, EVICT: 3}
"""How bad the result of a check is; the worst of a device's checks counts."""

SILENT = "silent"
"""Reason of a device whose agent does not report; every other reason is the name of a check."""

PRESENCE = "presence"
"""The one check that the board makes itself."""


@dataclass(frozen=True)
class CheckHealth:
    """State of one check of one device, after hysteresis, with its last result."""

    result: Result
    state: str
    since: float
    row: tuple[str, ...] = ()
    """The last results in a row that all differ from `state` in the same direction."""

    @property
    def name(self) -> str:
        return self.result.check

    @property
    def settled(self) -> bool:
        """True when the last result says what the state says: nothing waits to be confirmed."""
        return self.result.state == self.state


@dataclass(frozen=True)
class Health:
    """State of one device."""

    node: str
    """Name of the service, such as `ray-worker-0`."""
    device: str
    state: str
    reason: str
    """Name of the check that decides, or SILENT; empty when all passed."""
    message: str
    since: float
    """Time of the change to this state, in seconds since the epoch."""
    checks: tuple[CheckHealth, ...] = ()
    """By name."""
    model: str = ""
    heard: float = 0.0
    """Time of the node's last report."""


@dataclass(frozen=True)
class Order:
    """A request that a check runs soon: a person's, or to confirm or lift a state."""

    node: str
    check: str


@dataclass(frozen=True)
class Change:
    """A device that has another state or another reason than before; `old` is None for a new device."""

    at: float
    old: Health | None
    new: Health
