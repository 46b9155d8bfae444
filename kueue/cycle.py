"""One scheduling cycle: nominate the heads, order them, admit one after the other, say why not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kueue import reasons
from kueue.fair_victims import FairSearch
from kueue.flavors import Assignment, Finder, Mode, reduced
from kueue.item import Item
from kueue.matching import matches
from kueue.model import ANY, Admission, FlavorResource, Usage
from kueue.shares import Tournament
from kueue.snapshot import QuotaSnapshot, Victim
from kueue.tree import QuotaNode
from kueue.victims import Search

SELF_LABEL = "kubernetes.io/metadata.name"
"""Label that every namespace has."""


@dataclass
class Entry:
    """The head of a ClusterQueue in this cycle. `again` sends it back into the queue at once."""

    item: Item
    assignment: Assignment = field(default_factory=Assignment)
    victims: list[Victim] = field(default_factory=list)
    admission: Admission | None = None
    preempts: bool = False
    fresh: bool = False
    """Some of its victims were not on their way out before."""
    again: bool = False
    alone: bool = False
    reason: str = ""
    message: str = ""

    @property
    def awaits(self) -> bool:
        """Tell if it waits for preempted work to go: for its own victims, or, deferred, for another one's.

        Kueue requeues both as PendingPreemption (pkg/scheduler/scheduler.go: processEntry).
        """
        return self.preempts or self.assignment.deferred


class Cycle:
    """The decisions about some heads. Only admissions change the snapshot for good."""

    def __init__(
        self, snapshot: QuotaSnapshot, generations: dict[str, int], number: int, *, blocked: bool = False
    ) -> None:
        """`generations` counts releases by ClusterQueue; `blocked` holds admissions until pods are ready."""
        self.snapshot, self.number, self.blocked = snapshot, number, blocked
        self._generations = generations
        self._preempted: dict[str, Item] = {}
        self._reserved: list[tuple[QuotaNode, Usage]] = []

    def run(self, heads: Iterable[Item]) -> list[Entry]:
        """Decide about each head."""
        entries = [Entry(head) for head in heads]
        nominated = [entry for entry in entries if self._nominated(entry)]
        for entry in self._ordered(nominated):
            self._process(entry)
        for node, usage in self._reserved:
            node.remove_all(usage)
        return entries

    # Nomination

    def _nominated(self, entry: Entry) -> bool:
        """Find flavors and victims for an entry, unless it may not be admitted at all."""
        item, setup = entry.item, self.snapshot.setup
        selector = setup.cluster_queues[item.cluster_queue].selector
        namespace = item.workload.namespace
        labels = {SELF_LABEL: namespace, **setup.namespaces.get(namespace, {})}
        if selector is None or not matches(selector, labels):
            entry.reason, entry.message = reasons.MISCONFIGURED, reasons.NAMESPACE_MISMATCH
            entry.alone = True
            return False
        generation = self._generations.get(item.cluster_queue, 0)
        tried = item.tried
        if tried is not None and self.number - tried.cycle > 1 and generation > tried.generation:
            item.tried = None
        self._record(entry, *self._assign(item))
        return True

    @staticmethod
    def _record(entry: Entry, assignment: Assignment, victims: list[Victim]) -> None:
        entry.assignment, entry.victims = assignment, victims
        entry.message = assignment.message
        entry.item.tried = assignment.tried

    def _assign(
        self, item: Item, pinned: Sequence[dict[str, str]] | None = None
    ) -> tuple[Assignment, list[Victim]]:
        """Flavors and victims, with fewer pods where the full number does not fit and that is allowed."""
        finder = Finder(
            self.snapshot.setup,
            self.snapshot.setup.cluster_queues[item.cluster_queue],
            self.snapshot.node(item),
            item,
            lambda place, value: self._possible(item, place, value),
            self._generations.get(item.cluster_queue, 0),
            self.number,
            pinned,
        )
        whole = finder.find()
        if whole.mode == Mode.FIT:
            return whole, []
        victims = self._victims(item, whole)
        if victims:
            return whole, victims
        best: dict[tuple[int, ...], tuple[Assignment, list[Victim]]] = {}

        def good(counts: Sequence[int]) -> bool:
            assignment = finder.find(counts)
            gone = self._victims(item, assignment)
            best[tuple(counts)] = assignment, gone
            return assignment.mode == Mode.FIT or bool(gone)

        pod_sets = item.workload.pod_sets
        counts = reduced(
            [pod_set.count for pod_set in pod_sets], [pod_set.min_count for pod_set in pod_sets], good
        )
        return (whole, []) if counts is None else best[counts]

    def _victims(self, item: Item, assignment: Assignment) -> list[Victim]:
        if assignment.mode != Mode.PREEMPT:
            return []
        asked = {place: value for place, value in assignment.usage.items() if value}
        return self._search(item, assignment.need_preemption, asked)

    def _search(self, item: Item, places: set[FlavorResource], usage: Usage) -> list[Victim]:
        fair = self.snapshot.setup.config.strategies is not None
        return (FairSearch if fair else Search)(self.snapshot, item, places, usage).run()

    def _possible(self, item: Item, place: FlavorResource, value: int) -> tuple[Mode, int]:
        """Answer for one flavor's resource what preemption could do, and the borrowing level after it."""
        node = self.snapshot.node(item)
        victims = self._search(item, {place}, {place: value})
        if not victims:
            return Mode.NO_CANDIDATES, node.borrowing_level(place, value)[0]
        with self.snapshot.without(victim.item for victim in victims):
            level = node.borrowing_level(place, value)[0]
        own = any(victim.item.cluster_queue == item.cluster_queue for victim in victims)
        return (Mode.PREEMPT if own else Mode.RECLAIM), level

    # Admission

    def _ordered(self, entries: list[Entry]) -> Iterator[Entry]:
        if self.snapshot.setup.config.strategies is None:
            return iter(sorted(entries, key=lambda entry: (entry.assignment.borrowing, *self._rank(entry))))
        by_queue = {entry.item.cluster_queue: (self.snapshot.node(entry.item), entry) for entry in entries}
        return iter(Tournament(by_queue, lambda entry: entry.assignment.usage, self._rank))

    def _rank(self, entry: Entry) -> tuple[object, ...]:
        return -entry.item.priority, entry.item.queue_time(self.snapshot.setup.config)

    def _process(self, entry: Entry) -> None:
        item = entry.item
        node = self.snapshot.node(item)
        if any(victim.item.key in self._preempted for victim in entry.victims):
            self._assign_anew(entry)
        assignment, mode = entry.assignment, entry.assignment.mode
        if mode == Mode.NO_FIT:
            entry.reason = assignment.reason or reasons.WAITING_FOR_QUOTA
            entry.alone = entry.reason == reasons.NO_NODE  # those behind it need not wait
        elif mode == Mode.PREEMPT and not entry.victims:
            entry.reason = reasons.WAITING_FOR_QUOTA
            if self.snapshot.setup.cluster_queues[item.cluster_queue].preemption.reclaim != ANY:
                self._reserve(node, self._held_back(node, assignment))
        elif assignment.deferred:
            self._again(entry, reasons.WAITING_FOR_PREEMPTED, reasons.OVERLAPPING_BUT_FITS)
            item.tried = None
            self._reserve(node, assignment.usage)
        elif any(victim.item.key in self._preempted for victim in entry.victims):
            self._again(entry, reasons.WAITING_FOR_QUOTA, reasons.OVERLAPPING)
        elif not self._fits(node, entry):
            self._again(entry, reasons.WAITING_FOR_QUOTA, reasons.NO_LONGER_FITS)
        elif mode == Mode.PREEMPT:
            self._preempt(entry, node)
        elif self.blocked:
            self._again(entry, reasons.WAITING_FOR_PODS_READY, reasons.PODS_NOT_READY)
        else:
            entry.admission = assignment.admission(item.cluster_queue)
            entry.message = ""
            node.add_all(assignment.usage)
            config = self.snapshot.setup.config.pods_ready
            self.blocked = config is not None and config.block_admission

    def _assign_anew(self, entry: Entry) -> None:
        """Search again in the flavors found before, as if those preempted in this cycle were gone."""
        item = entry.item
        item.tried = None
        pinned = [dict(pod_set.flavors) for pod_set in entry.assignment.pod_sets]
        pinned += [{} for _ in range(len(item.workload.pod_sets) - len(pinned))]
        with self.snapshot.hidden(self._preempted.values()):
            assignment, victims = self._assign(item, pinned)
        if assignment.mode == Mode.FIT:
            assignment.deferred = True
        self._record(entry, assignment, victims)

    def _fits(self, node: QuotaNode, entry: Entry) -> bool:
        """Tell if the entry fits once all preempted in this cycle, and its own victims, are gone."""
        gone = {**self._preempted, **{victim.item.key: victim.item for victim in entry.victims}}
        with self.snapshot.without(gone.values()):
            return node.fits(entry.assignment.usage)

    def _preempt(self, entry: Entry, node: QuotaNode) -> None:
        self._preempted.update((victim.item.key, victim.item) for victim in entry.victims)
        self._reserve(node, entry.assignment.usage)
        entry.preempts = True
        entry.item.tried = None
        message = f"{entry.assignment.message}. Pending the preemption of {len(entry.victims)} workload(s)"
        self._again(entry, reasons.WAITING_FOR_PREEMPTED, message)

    def _reserve(self, node: QuotaNode, usage: Usage) -> None:
        """Count this as used until the end of the cycle."""
        node.add_all(usage)
        self._reserved.append((node, usage))

    @staticmethod
    def _again(entry: Entry, reason: str, message: str) -> None:
        entry.again, entry.reason, entry.message = True, reason, message

    @staticmethod
    def _held_back(node: QuotaNode, assignment: Assignment) -> Usage:
        """The quota that a head without victims keeps from others for the rest of the cycle.

        As in Kueue, less than nothing in a queue that is over its borrowing limit: cohorts do not notice.
        """
        kept = {}
        for place, value in assignment.usage.items():
            quota, used = node.quotas[place], node.usage.get(place, 0)
            if assignment.borrowing == 0:
                kept[place] = max(0, min(value, quota.nominal - used))
            elif quota.borrowing is None:
                kept[place] = value
            else:
                kept[place] = min(value, quota.nominal + quota.borrowing - used)
        return kept


def preemption_messages(snapshot: QuotaSnapshot, entry: Entry) -> list[tuple[Victim, str]]:
    """The message of each victim of an entry."""
    item = entry.item
    own = snapshot.path(item.cluster_queue)
    return [
        (victim, reasons.preempted(item.uid, victim.reason, own, snapshot.path(victim.item.cluster_queue)))
        for victim in entry.victims
    ]
