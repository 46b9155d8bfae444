"""Usage of LocalQueues over time, with a half-life: the order that admission fair sharing goes by."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from lab.queue.item import Item
from lab.queue.model import AdmissionFairSharing
from lab.queue.quantity import CPU

Door = tuple[str, str]
"""Namespace and name of a LocalQueue."""


class History:
    """Usage of each LocalQueue over time. A queue is charged for a grant at once, until usage shows it."""

    def __init__(self, settings: AdmissionFairSharing, weights: Mapping[Door, float]) -> None:
        """`weights` are of the LocalQueues; one that is not in it has weight 1."""
        self.settings, self.weights = settings, weights
        self._used: dict[Door, dict[str, float]] = {}
        self._charged: dict[Door, dict[str, float]] = {}
        self._sampled: float | None = None

    def of(self, door: Door) -> float:
        """The weighted sum of what a LocalQueue used, over its weight."""
        weight = self.weights.get(door, 1.0)
        if weight <= 0:
            return math.inf
        used, charged = self._used.get(door, {}), self._charged.get(door, {})
        total = 0.0
        for resource in sorted({*used, *charged}):
            amount = used.get(resource, 0.0) + charged.get(resource, 0.0)
            total += self.settings.weights.get(resource, 1.0) * amount
        return total / weight

    def take_over(self, other: History) -> None:
        """Go on with what another one has counted."""
        self._used, self._charged, self._sampled = other._used, other._charged, other._sampled

    def status(self) -> dict[str, Any]:
        """All that was counted, as plain JSON."""
        return {
            "sampled": self._sampled,
            "used": [[*door, amounts] for door, amounts in self._used.items()],
            "charged": [[*door, amounts] for door, amounts in self._charged.items()],
        }

    def restore(self, status: Mapping[str, Any]) -> None:
        """Inverse of `status`."""
        self._sampled = status["sampled"]
        self._used = {(space, name): dict(amounts) for space, name, amounts in status["used"]}
        self._charged = {(space, name): dict(amounts) for space, name, amounts in status["charged"]}

    def charge(self, item: Item) -> None:
        """Count a share of what was just granted at once."""
        share = self._fading(self.settings.sampling)
        charged = self._charged.setdefault(item.queue, {})
        for (_, resource), value in item.usage.items():
            charged[resource] = charged.get(resource, 0.0) + share * _natural(resource, value)

    def next_sample(self, now: float) -> float:
        """The time at which usage is looked at next."""
        return now if self._sampled is None else self._sampled + self.settings.sampling

    def sample(self, now: float, holding: Iterable[Item]) -> None:
        """Let old usage fade, and count what is held now."""
        current: dict[Door, dict[str, float]] = {}
        for item in holding:
            sums = current.setdefault(item.queue, {})
            for (_, resource), value in item.usage.items():
                sums[resource] = sums.get(resource, 0.0) + _natural(resource, value)
        share = self._fading(0.0 if self._sampled is None else now - self._sampled)
        for door in {*self._used, *current}:
            old, new = self._used.get(door, {}), current.get(door, {})
            self._used[door] = {
                resource: (1 - share) * old.get(resource, 0.0) + share * new.get(resource, 0.0)
                for resource in {*old, *new}
            }
        self._charged = {}
        self._sampled = now

    def _fading(self, elapsed: float) -> float:
        """The share of the old that is forgotten after so many seconds."""
        if self.settings.half_life == 0:
            return 0.0
        return float(1.0 - 0.5 ** (elapsed / self.settings.half_life))


def _natural(resource: str, value: int) -> float:
    return value / 1000 if resource == CPU else float(value)
