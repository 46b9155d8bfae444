"""Arithmetic of quotas over the tree of cohorts: what is used, lent, borrowed and left.

A node is a ClusterQueue or a cohort. Quotas are fixed once the tree is built; only usage changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kueue.model import ClusterQueue, Cohort, FlavorResource, Quota, Usage, quotas


class QuotaNode:
    """A ClusterQueue or a cohort, with the usage that counts against its quota."""

    def __init__(self, name: str, given: Iterable[tuple[FlavorResource, Quota]], weight: float) -> None:
        """Start with no parent and nothing used."""
        self.name, self.weight = name, weight
        self.parent: QuotaNode | None = None
        self.cohorts: list[QuotaNode] = []
        self.queues: list[QuotaNode] = []
        self.quotas: dict[FlavorResource, Quota] = dict(given)
        self.subtree: dict[FlavorResource, int] = {}
        self.local: dict[FlavorResource, int] = {}
        self.usage: dict[FlavorResource, int] = {}
        self.lost: dict[FlavorResource, int] = {}
        """Capacity of a root that is not there now."""
        self.height = 0
        self._potential: dict[FlavorResource, int] = {}
        self._lendable: dict[str, int] | None = None

    @property
    def root(self) -> QuotaNode:
        """The top of this node's tree."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def ancestors(self) -> Iterator[QuotaNode]:
        """Parent, its parent, and so on."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def all_queues(self) -> Iterator[QuotaNode]:
        """Every ClusterQueue below."""
        for cohort in self.cohorts:
            yield from cohort.all_queues()
        yield from self.queues

    # Quotas

    def sum_up(self) -> None:
        """Work out subtree quotas and heights, from the leaves up."""
        self.subtree = {place: quota.nominal for place, quota in self.quotas.items()}
        for child in (*self.cohorts, *self.queues):
            child.sum_up()
            for place, total in child.subtree.items():
                self.subtree[place] = self.subtree.get(place, 0) + total - child.local.get(place, 0)
        for place, quota in self.quotas.items():
            if quota.lending is not None:
                self.local[place] = max(0, self.subtree[place] - quota.lending)
        self.height = 1 if self.queues or self.cohorts else 0
        for cohort in self.cohorts:
            self.height = max(self.height, cohort.height + 1)

    def potential(self, place: FlavorResource) -> int:
        """The most that could be used here if nothing were used anywhere."""
        most = self._potential.get(place)
        if most is None:
            most = self.subtree.get(place, 0)
            if self.parent is not None:
                top = self._borrowing(place)
                most = self.local.get(place, 0) + self.parent.potential(place)
                if top is not None:
                    most = min(most, self.subtree.get(place, 0) + top)
            self._potential[place] = most
        return most

    def lendable(self) -> Mapping[str, int]:
        """Resource -> the most of it that could be used here, over all flavors of the tree."""
        if self._lendable is None:
            self._lendable = {}
            for place in self.root.subtree:
                total = self._lendable.get(place.resource, 0)
                self._lendable[place.resource] = total + self.potential(place)
        return self._lendable

    def _borrowing(self, place: FlavorResource) -> int | None:
        quota = self.quotas.get(place)
        return None if quota is None else quota.borrowing

    # Usage

    def local_available(self, place: FlavorResource) -> int:
        """The unused part of what is not lent."""
        return max(0, self.local.get(place, 0) - self.usage.get(place, 0))

    def left(self, place: FlavorResource) -> int:
        """The amount that can still be used here; below zero after quota was taken away, or capacity lost."""
        used, subtree = self.usage.get(place, 0), self.subtree.get(place, 0)
        if self.parent is None:
            return subtree - used - self.lost.get(place, 0)
        free = self.parent.left(place)
        top = self._borrowing(place)
        local = self.local.get(place, 0)
        if top is not None:
            free = min(free, subtree - local - max(0, used - local) + top)
        return max(0, local - used) + free

    def available(self, place: FlavorResource) -> int:
        """As `left`, but never below zero."""
        return max(0, self.left(place))

    def add(self, place: FlavorResource, value: int) -> None:
        """Use that much more; only what goes beyond the unlent part counts at the parent."""
        beyond = value - self.local_available(place)
        self.usage[place] = self.usage.get(place, 0) + value
        if self.parent is not None and beyond > 0:
            self.parent.add(place, beyond)

    def remove(self, place: FlavorResource, value: int) -> None:
        """Use that much less."""
        used = self.usage.get(place, 0)
        beyond = used - self.local.get(place, 0)
        self.usage[place] = used - value
        if self.parent is not None and min(value, beyond) > 0:
            self.parent.remove(place, min(value, beyond))

    def add_all(self, usage: Usage) -> None:
        """Add each amount."""
        for place, value in usage.items():
            self.add(place, value)

    def remove_all(self, usage: Usage) -> None:
        """Remove each amount."""
        for place, value in usage.items():
            self.remove(place, value)

    def borrows_with(self, place: FlavorResource, value: int = 0) -> bool:
        """Tell if usage and this value together are more than the subtree's own quota."""
        return self.usage.get(place, 0) + value > self.subtree.get(place, 0)

    def within(self, places: Iterable[FlavorResource]) -> bool:
        """Tell if none of these is borrowed."""
        return not any(self.borrows_with(place) for place in places)

    def holds(self, requests: Usage) -> tuple[bool, dict[FlavorResource, int]]:
        """Tell if the subtree's quota holds the requests, and what of them is left for the parent."""
        fits = not any(self.borrows_with(place, value) for place, value in requests.items())
        rest = {place: max(0, value - self.local_available(place)) for place, value in requests.items()}
        return fits, rest

    def fits(self, usage: Usage) -> bool:
        """Tell if there is room for all of this."""
        return all(value <= self.available(place) for place, value in usage.items())

    def borrowing_level(self, place: FlavorResource, value: int) -> tuple[int, bool]:
        """Height of the lowest subtree whose quota holds the value too, and if it is not the whole tree."""
        if self.parent is None or not self.borrows_with(place, value):
            return 0, self.parent is not None
        rest = value - self.local_available(place)
        node: QuotaNode = self
        for node in self.ancestors():
            if not node.borrows_with(place, rest):
                return node.height, node.parent is not None
            rest -= node.local_available(place)
        return node.height, False


class Tree:
    """All ClusterQueues and cohorts. `broken` names the queues under cohorts that are their own ancestors."""

    def __init__(self, queues: Iterable[ClusterQueue], cohorts: Iterable[Cohort]) -> None:
        """Build it; a cohort that is only named is one without quota of its own."""
        self.queues: dict[str, QuotaNode] = {}
        self.cohorts: dict[str, QuotaNode] = {}
        parents = {}
        for cohort in sorted(cohorts, key=lambda cohort: cohort.name):
            self.cohorts[cohort.name] = QuotaNode(cohort.name, quotas(cohort.groups), cohort.weight)
            parents[cohort.name] = cohort.parent
        for name in sorted({parent for parent in parents.values() if parent}):
            self._cohort(name)
        looped = {name for name in parents if _loops(name, parents)}
        for name, parent in parents.items():
            if parent and name not in looped:
                self._join(self.cohorts[name], self.cohorts[parent], below_cohort=True)
        self.broken: set[str] = set()
        for queue in sorted(queues, key=lambda queue: queue.name):
            node = self.queues[queue.name] = QuotaNode(queue.name, quotas(queue.groups), queue.weight)
            if queue.cohort in looped:
                self.broken.add(queue.name)
            elif queue.cohort:
                self._join(node, self._cohort(queue.cohort), below_cohort=False)
        for node in (*self.cohorts.values(), *self.queues.values()):
            if node.parent is None:
                node.sum_up()

    def _cohort(self, name: str) -> QuotaNode:
        return self.cohorts.setdefault(name, QuotaNode(name, (), 1.0))

    @staticmethod
    def _join(child: QuotaNode, parent: QuotaNode, *, below_cohort: bool) -> None:
        child.parent = parent
        (parent.cohorts if below_cohort else parent.queues).append(child)


def _loops(name: str, parents: Mapping[str, str]) -> bool:
    seen = {name}
    at = parents.get(name, "")
    while at:
        if at in seen:
            return True
        seen.add(at)
        at = parents.get(at, "")
    return False
