"""Choice of victims without fair sharing: by place in the hierarchy, by priority, then in the own queue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kueue import reasons
from kueue.item import Item
from kueue.model import NEVER, FlavorResource, Usage
from kueue.snapshot import QuotaSnapshot, Victim, uses
from kueue.tree import QuotaNode

WITHOUT_BORROWING = "without borrowing"
"""Marks a candidate that may be preempted only for a workload that then borrows nothing."""


@dataclass(frozen=True)
class Candidate:
    """A workload that might be preempted. `top` is the lowest node above both queues; None in the own one."""

    item: Item
    variant: str
    top: QuotaNode | None = None


class Search:
    """The search for victims of one workload."""

    def __init__(
        self, snapshot: QuotaSnapshot, item: Item, places: set[FlavorResource], usage: Usage
    ) -> None:
        """`places` is what preemption has to free, `usage` all that the workload would hold."""
        self.snapshot, self.item, self.places, self.usage = snapshot, item, places, usage
        self.node = snapshot.node(item)
        self.policy = snapshot.setup.cluster_queues[item.cluster_queue].preemption

    def run(self) -> list[Victim]:
        """The victims; none where no allowed set of them is enough."""
        above, others = self._outside()
        own = self._own()
        if not (above or others or own):
            return []
        ordered = [candidate for group in (above, others, own) for candidate in self._sorted(group)]
        if any(candidate.item.evicted for candidate in ordered):
            ordered.sort(key=lambda candidate: not candidate.item.evicted)
        forbidden = self.policy.borrow == NEVER
        if not (above or others) or (forbidden and not self._under_nominal()):
            attempts = [True]
        elif forbidden and not above:
            attempts = [False, True]
        else:
            attempts = [True, False]
        for borrowing in attempts:
            victims = self._attempt(ordered, borrowing)
            if victims:
                return victims
        return []

    def _sorted(self, group: list[Candidate]) -> list[Candidate]:
        by_key = {candidate.item.key: candidate for candidate in group}
        items = self.snapshot.sorted([candidate.item for candidate in group], self.item.cluster_queue)
        return [by_key[item.key] for item in items]

    def _attempt(self, ordered: list[Candidate], borrowing: bool) -> list[Victim]:
        gone: list[Victim] = []
        victims: list[Victim] = []
        for candidate in ordered:
            if not self._valid(candidate, borrowing):
                continue
            self.snapshot.take(candidate.item)
            gone.append(Victim(candidate.item, _reason(candidate.variant)))
            if fits(self.node, self.usage, borrowing):
                victims = gone = fill_back(self.snapshot, self.node, self.usage, gone, borrowing)
                break
        for victim in gone:
            self.snapshot.put_back(victim.item)
        return victims

    def _valid(self, candidate: Candidate, borrowing: bool) -> bool:
        """Tell if a candidate still counts after those before it are gone."""
        if candidate.top is None:
            return True
        if borrowing and candidate.variant == WITHOUT_BORROWING:
            return False
        node: QuotaNode | None = self.snapshot.node(candidate.item)
        while node is not None and node is not candidate.top:
            if node.within(self.places):
                return False
            node = node.parent
        return True

    def _under_nominal(self) -> bool:
        quotas, usage = self.node.quotas, self.node.usage
        return all(place in quotas and usage.get(place, 0) < quotas[place].nominal for place in self.places)

    # Candidates

    def _own(self) -> list[Candidate]:
        if self.policy.within == NEVER:
            return []
        return [
            Candidate(other, reasons.IN_CLUSTER_QUEUE)
            for other in self.snapshot.holding(self.item.cluster_queue)
            if uses(other, self.places) and self.snapshot.may_preempt(self.item, other, self.policy.within)
        ]

    def _outside(self) -> tuple[list[Candidate], list[Candidate]]:
        """Candidates of other queues: those at an advantage over, and those that priority decides about."""
        above: list[Candidate] = []
        others: list[Candidate] = []
        if self.node.parent is None or self.policy.reclaim == NEVER:
            return above, others
        advantage, rest = self.node.holds(self.usage)
        before: QuotaNode | None = None
        for top in self.node.ancestors():
            (above if advantage else others).extend(self._below(top, top, before, advantage))
            fits_here, rest = top.holds(rest)
            advantage = advantage or fits_here
            before = top
        return above, others

    def _below(
        self, node: QuotaNode, top: QuotaNode, skipped: QuotaNode | None, advantage: bool
    ) -> Iterator[Candidate]:
        """Candidates in the queues below that exceed their quota, except for a part already seen."""
        for cohort in node.cohorts:
            if cohort is not skipped and not cohort.within(self.places):
                yield from self._below(cohort, top, skipped, advantage)
        for queue in node.queues:
            if queue is self.node or queue.within(self.places):
                continue
            for other in self.snapshot.holding(queue.name):
                if not uses(other, self.places):
                    continue
                if self.snapshot.may_preempt(self.item, other, self.policy.reclaim):
                    yield Candidate(other, self._variant(other, advantage), top)

    def _variant(self, candidate: Item, advantage: bool) -> str:
        if advantage:
            return reasons.RECLAMATION
        threshold = self.policy.threshold
        protected = candidate.priority >= self.item.priority or (
            threshold is not None and candidate.priority > threshold
        )
        if self.policy.borrow == NEVER or protected:
            return WITHOUT_BORROWING
        return reasons.WHILE_BORROWING


def fits(node: QuotaNode, usage: Usage, borrowing: bool) -> bool:
    """Tell if this usage fits now, and within nominal quota where it must not borrow."""
    for place, value in usage.items():
        if not borrowing and node.borrows_with(place, value):
            return False
        if value > node.available(place):
            return False
    return True


def fill_back(
    snapshot: QuotaSnapshot, node: QuotaNode, usage: Usage, gone: list[Victim], borrowing: bool
) -> list[Victim]:
    """Put back all that need not have gone, the last but one first; the rest stays taken."""
    kept = list(gone)
    for place in range(len(kept) - 2, -1, -1):
        snapshot.put_back(kept[place].item)
        if fits(node, usage, borrowing):
            kept[place] = kept[-1]
            kept.pop()
        else:
            snapshot.take(kept[place].item)
    return kept


def _reason(variant: str) -> str:
    return reasons.RECLAMATION if variant == WITHOUT_BORROWING else variant
