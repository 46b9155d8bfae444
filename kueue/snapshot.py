"""All that one cycle looks at: the tree with its usage, who holds quota where, and the moment."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cmp_to_key, partial

from kueue.item import Item
from kueue.model import ANY, LOWER_OR_NEWER, LOWER_PRIORITY, FlavorResource, Setup, Usage
from kueue.tree import QuotaNode, Tree


@dataclass(frozen=True)
class Victim:
    """A workload to preempt, and Kueue's reason for it."""

    item: Item
    reason: str


@dataclass
class QuotaSnapshot:
    """State in which a question is asked. Whoever changes usage puts it back."""

    setup: Setup
    tree: Tree
    held: dict[str, dict[str, Item]]
    """ClusterQueue -> key -> workload that holds quota there."""

    inactive: Container[str] = ()
    """Names of the ClusterQueues that admit nothing."""

    now: float = 0.0
    local_usage: dict[tuple[str, str], float] = field(default_factory=dict)
    """Usage of LocalQueues over time, of those in queues that go by it."""

    def holding(self, queue: str) -> Iterable[Item]:
        """Workloads of a ClusterQueue that a policy may let others preempt.

        None of one that admits nothing: Kueue leaves it out (pkg/cache/scheduler/snapshot.go: Snapshot).
        """
        return () if queue in self.inactive else self.held[queue].values()

    def node(self, item: Item) -> QuotaNode:
        """The ClusterQueue that this workload is in."""
        return self.tree.queues[item.cluster_queue]

    def take(self, item: Item) -> None:
        """Free what a workload holds."""
        self.node(item).remove_all(item.usage)

    def put_back(self, item: Item) -> None:
        """Undo `take`."""
        self.node(item).add_all(item.usage)

    @contextmanager
    def without(self, items: Iterable[Item]) -> Iterator[None]:
        """Leave out the usage of these, as long as the block lasts."""
        gone = list(items)
        for item in gone:
            self.take(item)
        yield
        for item in gone:
            self.put_back(item)

    @contextmanager
    def hidden(self, items: Iterable[Item]) -> Iterator[None]:
        """Leave out these altogether, as candidates too, as long as the block lasts."""
        gone = list(items)
        with self.without(gone):
            for item in gone:
                del self.held[item.cluster_queue][item.key]
            yield
            for item in gone:
                self.held[item.cluster_queue][item.key] = item

    @contextmanager
    def added(self, node: QuotaNode, usage: Usage) -> Iterator[None]:
        """Add this usage, as long as the block lasts."""
        node.add_all(usage)
        yield
        node.remove_all(usage)

    def may_preempt(self, preemptor: Item, candidate: Item, policy: str) -> bool:
        """Tell if a policy lets the first preempt the second."""
        if policy == ANY or (policy in (LOWER_PRIORITY, LOWER_OR_NEWER) and _above(preemptor, candidate)):
            return True
        if policy != LOWER_OR_NEWER or preemptor.priority != candidate.priority:
            return False
        config = self.setup.config
        return preemptor.queue_time(config)[0] < candidate.queue_time(config)[0]

    def sorted(self, candidates: Iterable[Item], queue: str) -> list[Item]:
        """Candidates in the order in which they are preempted."""
        ordered = sorted(candidates, key=lambda candidate: self.order(candidate, queue))
        if self.setup.config.admission_fair_sharing is None:
            return ordered
        ordered.sort(key=cmp_to_key(partial(self._compare, queue)))
        return ordered

    def order(self, candidate: Item, queue: str) -> tuple[object, ...]:
        """Sort key of candidates: the first one is preempted first."""
        reserved = self.now if candidate.reserved_at is None else candidate.reserved_at
        return (
            not candidate.evicted,
            candidate.cluster_queue == queue,
            candidate.priority,
            -reserved,
            candidate.uid,
            candidate.key,
        )

    def _compare(self, queue: str, a: Item, b: Item) -> int:
        """As `order`, but of two in one ClusterQueue the one whose LocalQueue used more goes first."""
        first, second = self.order(a, queue), self.order(b, queue)
        usages = self.local_usage.get(a.queue), self.local_usage.get(b.queue)
        rivals = a.cluster_queue == b.cluster_queue and a.queue != b.queue and first[:2] == second[:2]
        if rivals and None not in usages and usages[0] != usages[1]:
            return -1 if (usages[0] or 0.0) > (usages[1] or 0.0) else 1
        return (first > second) - (first < second)

    def path(self, queue: str) -> str:
        """The place of a ClusterQueue in the tree, from the root down."""
        node = self.tree.queues[queue]
        return "/" + "/".join([*(ancestor.name for ancestor in reversed(list(node.ancestors()))), queue])


def uses(item: Item, places: set[FlavorResource]) -> bool:
    """Tell if a workload holds something of one of these."""
    return not places.isdisjoint(item.usage)


def _above(a: Item, b: Item) -> bool:
    return a.priority > b.priority
