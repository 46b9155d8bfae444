"""Dominant resource shares, and the tournament that fair sharing orders a cycle's workloads with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from kueue.model import FlavorResource, Usage
from kueue.tree import QuotaNode


@dataclass(frozen=True)
class Share:
    """The borrowed part of what could be lent, in thousandths, of the resource where it is largest.

    Shares are ordered by `key`. A node of weight 0 that borrows is above all others.
    """

    ratio: float = 0.0
    weight: float = 1.0
    resource: str = ""
    borrowed: frozenset[FlavorResource] = frozenset()

    @property
    def borrowing(self) -> bool:
        """Tell if anything is borrowed at all."""
        return bool(self.borrowed)

    @property
    def weighted(self) -> float:
        """The share over the weight."""
        if self.ratio == 0:
            return 0.0
        return math.inf if self.weight == 0 else self.ratio / self.weight

    @property
    def key(self) -> tuple[float, float]:
        """Sort key: the lowest share is admitted first and preempted last."""
        weighted = self.weighted
        return weighted, self.ratio if math.isinf(weighted) else 0.0


def share(node: QuotaNode) -> Share:
    """The share of a node as it is used now; nothing for a node without a parent."""
    if node.parent is None:
        return Share(weight=node.weight)
    amounts: dict[str, int] = {}
    borrowed = set()
    for place, used in node.usage.items():
        over = used - node.subtree.get(place, 0)
        if over > 0 and place in node.subtree:
            amounts[place.resource] = amounts.get(place.resource, 0) + over
            borrowed.add(place)
    if not borrowed:
        return Share(weight=node.weight)
    lendable = node.parent.lendable()
    best, name = 0.0, ""
    for resource in sorted(amounts):
        most = lendable.get(resource, 0)
        if most > 0:
            ratio = float(amounts[resource]) * 1000.0 / float(most)
            if ratio > best:
                best, name = ratio, resource
    return Share(best, node.weight, name, frozenset(borrowed))


Entry = TypeVar("Entry")


class Tournament(Generic[Entry]):
    """Order of a cycle's entries under fair sharing: the winner of each round goes next.

    Every cohort sends the best of its queues and cohorts up. Better is who borrows nothing that it asks
    for, then who has the lower share with the request, then who is first by `order`.
    """

    def __init__(
        self,
        entries: Mapping[str, tuple[QuotaNode, Entry]],
        usage: Callable[[Entry], Usage],
        order: Callable[[Entry], tuple[object, ...]],
    ) -> None:
        """`entries` is by ClusterQueue; `usage` gives what an entry asks for."""
        self._entries = dict(sorted(entries.items()))
        self._usage, self._order = usage, order
        self._shares: dict[tuple[str, str], Share] = {}

    def __iter__(self) -> Iterator[Entry]:
        """Yield one winner at a time; what is done with it counts in the next round."""
        while self._entries:
            name = next(iter(self._entries))
            node = self._entries[name][0]
            if node.parent is not None:
                root = node.root
                self._measure(root)
                name = self._best(root) or name
            yield self._entries.pop(name)[1]

    def _measure(self, root: QuotaNode) -> None:
        """Work out each share with the entry's request, at the queue and at every cohort above it."""
        self._shares = {}
        for queue in root.all_queues():
            if queue.name not in self._entries:
                continue
            usage = self._usage(self._entries[queue.name][1])
            queue.add_all(usage)
            at: QuotaNode = queue
            for above in queue.ancestors():
                self._shares[above.name, queue.name] = share(at)
                at = above
            queue.remove_all(usage)

    def _best(self, cohort: QuotaNode) -> str | None:
        """The ClusterQueue whose entry wins in this cohort."""
        names = [name for child in cohort.cohorts if (name := self._best(child)) is not None]
        names += [child.name for child in cohort.queues if child.name in self._entries]
        return min(names, key=lambda name: self._key(cohort, name), default=None)

    def _key(self, cohort: QuotaNode, name: str) -> tuple[object, ...]:
        entry = self._entries[name][1]
        share = self._shares[cohort.name, name]
        wanted = self._usage(entry)
        borrows = any(wanted.get(place, 0) > 0 for place in share.borrowed)
        return (borrows, share.key, self._order(entry))
