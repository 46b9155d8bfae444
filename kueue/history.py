"""Usage of LocalQueues over time, with a half-life: the order that admission fair sharing goes by."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kueue.item import Item
from kueue.model import AdmissionFairSharing
from kueue.quantity import CPU

QueueKey = tuple[str, str]
"""Namespace and name of a LocalQueue."""


class UsageHistory:
    """Usage of each LocalQueue over time, as all LocalQueues are looked at in the same moments.

    A grant is settled at once, and what it is charged fades as other usage does: Kueue folds the entry
    penalty into the consumed usage on admission (pkg/controller/core/workload_controller.go:
    updateAfsConsumedUsage).
    """

    def __init__(self, settings: AdmissionFairSharing, weights: Mapping[QueueKey, float]) -> None:
        """`weights` are of the LocalQueues; one that is not in it has weight 1."""
        self.settings, self.weights = settings, weights
        self._used: dict[QueueKey, dict[str, float]] = {}
        self._sampled: float | None = None
        self._settled: dict[QueueKey, float] = {}
        """Time of the last grant of a LocalQueue, where that was after the last sample."""

    def of(self, key: QueueKey) -> float:
        """The weighted sum of what a LocalQueue used, over its weight."""
        return self._weighed(key, self._used.get(key, {}))

    def _weighed(self, key: QueueKey, amounts: Mapping[str, float]) -> float:
        weight = self.weights.get(key, 1.0)
        if weight <= 0:
            return math.inf
        return sum(self.settings.weights.get(name, 1.0) * amounts[name] for name in sorted(amounts)) / weight

    def take_over(self, other: UsageHistory) -> None:
        """Go on with what another one has counted."""
        self._used, self._settled, self._sampled = other._used, other._settled, other._sampled

    def status(self) -> dict[str, Any]:
        """All that was counted, as plain JSON."""
        return {
            "sampled": self._sampled,
            "used": [[*key, amounts] for key, amounts in self._used.items()],
            "settled": [[*key, at] for key, at in self._settled.items()],
        }

    def restore(self, status: Mapping[str, Any]) -> None:
        """Inverse of `status`; what older files keep apart as `charged` is part of the usage."""
        self._sampled = status["sampled"]
        self._used = {(space, name): dict(amounts) for space, name, amounts in status["used"]}
        self._settled = {(space, name): at for space, name, at in status.get("settled", ())}
        for space, name, amounts in status.get("charged", ()):
            _add(self._used.setdefault((space, name), {}), amounts, 1.0)

    def charge(self, item: Item, now: float, holding: Iterable[Item]) -> None:
        """Settle what was just granted: usage until now, and at once the share that a whole sample would add.

        `holding` are those that hold quota, this one included.
        """
        key = item.queue
        self._advance(key, now, _amounts(held for held in holding if held.queue == key))
        self._settled[key] = max(now, self._since(key, now))
        _add(self._used[key], _amounts([item])[key], self._fading(self.settings.sampling))

    def next_sample(self, now: float) -> float:
        """The time at which usage is looked at next."""
        return now if self._sampled is None else self._sampled + self.settings.sampling

    def skip(
        self, now: float, until: float, holding: Iterable[Item], waiting: Iterable[Iterable[QueueKey]]
    ) -> float:
        """The last sample before `until`, or before another LocalQueue is first among those that wait.

        Samples in between change nothing as long as all hold what they hold: usage fades towards that at one
        pace, however often it is looked at. `waiting` are the LocalQueues that compete, by ClusterQueue.
        """
        following = self.next_sample(now)
        if self._sampled is None or self._settled or following >= until:
            return following
        current = _amounts(holding)
        for keys in waiting:
            until = min(until, self._sampled + self._overtaken(list(keys), current))
        steps = math.ceil((until - self._sampled) / self.settings.sampling) - 1
        return max(following, self._sampled + steps * self.settings.sampling)

    def _overtaken(self, keys: Sequence[QueueKey], current: Mapping[QueueKey, Mapping[str, float]]) -> float:
        """Seconds after the last sample until the lowest usage is that of another LocalQueue."""
        ends = [self._weighed(key, current.get(key, {})) for key in keys]
        gaps = [
            self._weighed(key, self._used.get(key, {})) - end for key, end in zip(keys, ends, strict=True)
        ]
        lines = [(end, gap) for end, gap in zip(ends, gaps, strict=True) if math.isfinite(end)]
        if len(lines) < 2 or self.settings.half_life == 0:
            return math.inf
        end, gap = min(lines, key=sum)
        # the share of the old that is left when two of the lines meet
        meeting = [(other - end) / (gap - slope) for other, slope in lines if slope != gap]
        left = max((moment for moment in meeting if 0 < moment <= 1), default=0.0)
        return math.inf if left == 0 else -math.log2(left) * self.settings.half_life

    def sample(self, now: float, holding: Iterable[Item]) -> None:
        """Let old usage fade, and count what is held now."""
        current = _amounts(holding)
        for key in {*self._used, *current}:
            self._advance(key, now, current)
        self._settled = {}
        self._sampled = now

    def _advance(self, key: QueueKey, now: float, current: Mapping[QueueKey, Mapping[str, float]]) -> None:
        """Let the usage of one LocalQueue fade until now, towards what it holds."""
        share = self._fading(max(0.0, now - self._since(key, now)))
        faded: dict[str, float] = {}
        _add(faded, self._used.get(key, {}), 1 - share)
        _add(faded, current.get(key, {}), share)
        self._used[key] = faded

    def _since(self, key: QueueKey, now: float) -> float:
        """The time until which the usage of a LocalQueue is counted; a clock may have been set back since."""
        return self._settled.get(key, now if self._sampled is None else self._sampled)

    def _fading(self, elapsed: float) -> float:
        """The share of the old that is forgotten after so many seconds."""
        if self.settings.half_life == 0:
            return 0.0
        return float(1.0 - 0.5 ** (elapsed / self.settings.half_life))


def _amounts(holding: Iterable[Item]) -> dict[QueueKey, dict[str, float]]:
    """What each LocalQueue holds: resource -> amount."""
    held: dict[QueueKey, dict[str, float]] = {}
    for item in holding:
        sums = held.setdefault(item.queue, {})
        for (_, resource), value in item.usage.items():
            sums[resource] = sums.get(resource, 0.0) + _natural(resource, value)
    return held


def _add(sums: dict[str, float], amounts: Mapping[str, float], share: float) -> None:
    """Add a share of these amounts."""
    for resource, amount in amounts.items():
        sums[resource] = sums.get(resource, 0.0) + share * amount


def _natural(resource: str, value: int) -> float:
    return value / 1000 if resource == CPU else float(value)
