"""Workloads that wait in one ClusterQueue: their order, who is parked, and what brings the parked back.

Workloads of the same shape get the same answer, so they are parked together and kept in one heap.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator

from kueue.item import Item
from kueue.model import BEST_EFFORT_FIFO, STRICT_FIFO, Config

Key = tuple[int, tuple[float, int], str, str]


class Pending:
    """The queue of one ClusterQueue.

    `usage` gives what a LocalQueue used over time, where the order goes by that before all else.
    """

    def __init__(
        self, strategy: str, config: Config, usage: Callable[[tuple[str, str]], float] | None = None
    ) -> None:
        """Start empty."""
        self.strategy, self._config, self._usage = strategy, config, usage
        self.by_usage = usage is not None
        self._heaps: dict[Hashable, list[tuple[Key, int, Item]]] = {}
        self._tops: list[tuple[Key, int, Hashable]] = []
        self._serial = 0
        self._parked: dict[Hashable, tuple[str, str]] = {}
        """Shape -> reason and message with which all workloads of it wait for an event."""

        self._alone: dict[str, Item] = {}
        """Workloads of namespaces not taken, or that fit on no node, until other ones are applied."""

        self._later: dict[str, Item] = {}
        """Workloads that wait for their time."""

        self.sticky: Item | None = None

    def key(self, item: Item) -> Key:
        """Sort key: priority, then time in the queue, then UID."""
        return (-item.priority, item.queue_time(self._config), item.uid, item.key)

    def push(self, item: Item) -> None:
        """Put a workload in; one whose shape is parked waits with the others."""
        item.ticket += 1
        item.queued = True
        group = self._group(item)
        heap = self._heaps.setdefault(group, [])
        entry = (self.key(item), item.ticket, item)
        heapq.heappush(heap, entry)
        if heap[0] is entry:
            self._offer(group)

    def put_off(self, item: Item) -> None:
        """Put a workload in that may not be tried before its `requeue_at`."""
        item.queued = True
        self._later[item.key] = item

    def park_alone(self, item: Item) -> None:
        """Let a workload wait until other queues or nodes are applied, without those of the same shape."""
        item.queued = True
        self._alone[item.key] = item

    def park(self, item: Item, reason: str, message: str) -> None:
        """Let a workload wait for an event, and under BestEffortFIFO all of the same shape too."""
        if self.strategy == BEST_EFFORT_FIFO:
            self._parked[item.shape] = (reason, message)
        self.push(item)

    def remove(self, item: Item) -> None:
        """Take a workload out, wherever it is."""
        item.queued = False
        item.ticket += 1
        self._alone.pop(item.key, None)
        self._later.pop(item.key, None)
        if self.sticky is item:
            self.sticky = None

    def unpark(self) -> None:
        """Bring all back that waited for an event, but those of namespaces that are not taken."""
        parked, self._parked = self._parked, {}
        for group in self._heaps if parked else ():
            if group[0] in parked:  # type: ignore[index]
                self._offer(group)

    def wake(self, now: float) -> list[Item]:
        """Bring back those whose time has come."""
        due = [item for item in self._later.values() if item.requeue_at is None or item.requeue_at <= now]
        for item in due:
            del self._later[item.key]
            self.push(item)
        return due

    def next_wake(self) -> float | None:
        """The time at which the next one is due."""
        return min((item.requeue_at or 0.0 for item in self._later.values()), default=None)

    def pop(self) -> Item | None:
        """Take out the head; None when all wait for an event or there are none."""
        item = self._head()
        if item is not None:
            item.queued = False
            item.ticket += 1
        return item

    def local_queues(self) -> set[tuple[str, str]]:
        """LocalQueues that have somebody here to try."""
        tops = (self._top(group) for group in list(self._heaps) if group[0] not in self._parked)  # type: ignore[index]
        return {top.queue for top in tops if top is not None}

    def __iter__(self) -> Iterator[Item]:
        """Everything that waits, in the order of the queue."""
        waiting = [item for heap in self._heaps.values() for _, ticket, item in heap if ticket == item.ticket]
        waiting += [*self._alone.values(), *self._later.values()]
        return iter(sorted((item for item in waiting if item.queued), key=self._order))

    def condition(self, item: Item) -> tuple[str, str]:
        """Reason and message of a workload, also when only another one of its shape was tried."""
        if not item.reason and item.shape in self._parked:
            return self._parked[item.shape]
        return item.reason, item.message

    def apart(self, item: Item) -> bool:
        """Tell if a workload waits for an event or for its time, so that it is not tried now."""
        return item.key in self._later or item.key in self._alone or item.shape in self._parked

    # Order

    def _order(self, item: Item) -> tuple[object, ...]:
        used = self._usage(item.queue) if self._usage is not None else 0.0
        return (used, item is not self.sticky, self.key(item))

    def _group(self, item: Item) -> Hashable:
        shape: Hashable = item.shape if self.strategy != STRICT_FIFO else None
        return (shape, item.queue) if self._usage is not None else (shape, None)

    def _offer(self, group: Hashable) -> None:
        heap = self._heaps[group]
        if heap and group[0] not in self._parked:  # type: ignore[index]
            self._serial += 1
            heapq.heappush(self._tops, (heap[0][0], self._serial, group))

    def _top(self, group: Hashable) -> Item | None:
        """The first of a heap that is still there."""
        heap = self._heaps.get(group)
        while heap:
            _, ticket, item = heap[0]
            if item.queued and ticket == item.ticket:
                return item
            heapq.heappop(heap)
        self._heaps.pop(group, None)
        return None

    def _ready(self, item: Item) -> bool:
        return item.queued and not self.apart(item)

    def _head(self) -> Item | None:
        if self._usage is not None:
            tops = (self._top(group) for group in list(self._heaps) if group[0] not in self._parked)  # type: ignore[index]
            return min((top for top in tops if top is not None), key=self._order, default=None)
        if self.sticky is not None and self._ready(self.sticky):
            return self.sticky
        while self._tops:
            key, _, group = self._tops[0]
            item = None if group[0] in self._parked else self._top(group)  # type: ignore[index]
            if item is not None and self.key(item) == key:
                return item
            heapq.heappop(self._tops)
            if item is not None:
                self._offer(group)
        return None
