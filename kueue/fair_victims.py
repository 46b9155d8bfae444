"""Choice of victims with fair sharing: from whoever has the largest share, as long as that is fair."""

from __future__ import annotations

import math

from kueue import reasons
from kueue.item import Item
from kueue.model import FINAL_SHARE, INITIAL_SHARE, NEVER, FlavorResource, Usage
from kueue.shares import Share, share
from kueue.snapshot import QuotaSnapshot, Victim, uses
from kueue.tree import QuotaNode
from kueue.victims import fill_back, fits


class FairSearch:
    """The search for victims of one workload."""

    def __init__(
        self, snapshot: QuotaSnapshot, item: Item, places: set[FlavorResource], usage: Usage
    ) -> None:
        """`places` is what preemption has to free, `usage` all that the workload would hold."""
        self.snapshot, self.item, self.places, self.usage = snapshot, item, places, usage
        self.node = snapshot.node(item)
        self.policy = snapshot.setup.cluster_queues[item.cluster_queue].preemption
        self.gone: list[Victim] = []
        self.kept: list[Item] = []

    def run(self) -> list[Victim]:
        """The victims; none where no fair set of them is enough."""
        candidates = self.snapshot.sorted(self._candidates(), self.item.cluster_queue)
        if not candidates:
            return []
        strategies = self.snapshot.setup.config.strategies or (FINAL_SHARE, INITIAL_SHARE)
        with self.snapshot.added(self.node, self.usage):  # shares count what is asked for
            done = self._first(candidates, strategies[0])
            if not done and len(strategies) > 1:
                done = self._second()
        victims = fill_back(self.snapshot, self.node, self.usage, self.gone, True) if done else []
        for victim in victims if done else self.gone:
            self.snapshot.put_back(victim.item)
        return victims

    def _candidates(self) -> list[Item]:
        """Workloads of the own queue, and of every queue of the tree that borrows what is needed."""
        candidates = self._of(self.node, self.policy.within)
        if self.node.parent is not None and self.policy.reclaim != NEVER:
            for queue in self.node.root.all_queues():
                if queue is not self.node and not queue.within(self.places):
                    candidates += self._of(queue, self.policy.reclaim)
        return candidates

    def _of(self, queue: QuotaNode, policy: str) -> list[Item]:
        if policy == NEVER:
            return []
        return [
            other
            for other in self.snapshot.holding(queue.name)
            if uses(other, self.places) and self.snapshot.may_preempt(self.item, other, policy)
        ]

    def _fits_without(self, item: Item, reason: str) -> bool:
        """Take one more away, and tell if that is enough."""
        self.snapshot.take(item)
        self.gone.append(Victim(item, reason))
        self.node.remove_all(self.usage)
        enough = fits(self.node, self.usage, True)
        self.node.add_all(self.usage)
        return enough

    def _first(self, candidates: list[Item], strategy: str) -> bool:
        """Take from one queue after the other; those that `strategy` spares are kept for the second rule."""
        entitled = self.node.within(self.places)
        targets = Targets(self, candidates)
        while (queue := targets.next()) is not None:
            if queue is self.node or entitled:
                reason = reasons.IN_CLUSTER_QUEUE if queue is self.node else reasons.RECLAMATION
                if self._fits_without(targets.pop(queue), reason):
                    return True
                continue
            mine, theirs = self._sides(queue)
            ours, before = share(mine), share(theirs)
            if math.isinf(ours.weighted) and not math.isinf(before.weighted):
                while targets.has(queue):
                    self.kept.append(targets.pop(queue))
                continue
            while targets.has(queue):
                item = targets.pop(queue)
                if not self._fair(strategy, ours, before, theirs, item):
                    self.kept.append(item)
                    continue
                if self._fits_without(item, reasons.FAIR_SHARING):
                    return True
                break  # the shares are others now
        return False

    def _fair(self, strategy: str, ours: Share, before: Share, theirs: QuotaNode, item: Item) -> bool:
        if strategy == INITIAL_SHARE:
            return ours.key < before.key
        with self.snapshot.without([item]):
            return ours.key <= share(theirs).key

    def _second(self) -> bool:
        """Try the first of those kept, of each queue once, against the share before it goes."""
        targets = Targets(self, self.kept)
        while (queue := targets.next()) is not None:
            mine, theirs = self._sides(queue)
            fair = share(mine).key < share(theirs).key
            item = targets.pop(queue)
            if fair and self._fits_without(item, reasons.FAIR_SHARING):
                return True
            targets.drop(queue)
        return False

    def _sides(self, queue: QuotaNode) -> tuple[QuotaNode, QuotaNode]:
        """The two children of the lowest common cohort: of the preemptor's side, and of the other."""
        above = list(self.node.ancestors())
        theirs = queue
        while theirs.parent is not None and theirs.parent not in above:
            theirs = theirs.parent
        mine = self.node
        while mine.parent is not None and mine.parent is not theirs.parent:
            mine = mine.parent
        return mine, theirs


class Targets:
    """Queues to take from: always the one that the largest shares lead to, from the root down."""

    def __init__(self, search: FairSearch, candidates: list[Item]) -> None:
        """`candidates` are in the order in which they are to go."""
        self._search = search
        self._own = search.node
        self._above = set(search.node.ancestors())
        self._left: dict[str, list[Item]] = {}
        for item in reversed(candidates):
            self._left.setdefault(item.cluster_queue, []).append(item)
        self._pruned: set[QuotaNode] = set()

    def has(self, queue: QuotaNode) -> bool:
        """Tell if the queue has candidates left."""
        return bool(self._left.get(queue.name))

    def pop(self, queue: QuotaNode) -> Item:
        """The next candidate of the queue."""
        return self._left[queue.name].pop()

    def drop(self, queue: QuotaNode) -> None:
        """Leave this queue alone from now on."""
        self._pruned.add(queue)

    def next(self) -> QuotaNode | None:
        """The queue to take from now; None when there is none."""
        if self._own.parent is None:
            return self._own if self._own not in self._pruned and self.has(self._own) else None
        root = self._own.root
        while root not in self._pruned:
            queue = self._descend(root)
            if queue is not None:
                return queue
        return None

    def _descend(self, cohort: QuotaNode) -> QuotaNode | None:
        """The queue below; None when this step only found out that something has none."""
        best: QuotaNode | None = None
        highest = (-1.0, 0.0)
        for queue in cohort.queues:
            if queue in self._pruned:
                continue
            standing = share(queue)
            if (not standing.borrowing and queue is not self._own) or not self.has(queue):
                self._pruned.add(queue)
            elif standing.key > highest or (
                best is not None and standing.key == highest and self._sooner(queue, best)
            ):
                best, highest = queue, standing.key
        below: QuotaNode | None = None
        highest_below = (-1.0, 0.0)
        for child in cohort.cohorts:
            if child in self._pruned:
                continue
            below_it = share(child)
            if not below_it.borrowing and child not in self._above:
                self._pruned.add(child)
            elif below_it.key >= highest_below:
                below, highest_below = child, below_it.key
        if below is not None and highest_below >= highest:
            return self._descend(below)
        if best is None:
            self._pruned.add(cohort)
        return best

    def _sooner(self, queue: QuotaNode, other: QuotaNode) -> bool:
        """Tell if the next candidate of the first queue is to go before that of the second."""
        snapshot = self._search.snapshot
        a, b = (snapshot.order(self._left[node.name][-1], self._own.name) for node in (queue, other))
        return a < b
