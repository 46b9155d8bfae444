"""Places of workloads: who waits where, who holds quota, and the ways from one to the other."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kueue import reasons
from kueue.capacity import shrink
from kueue.history import UsageHistory
from kueue.item import ADMITTED, INACTIVE, PENDING, Item
from kueue.model import NONE, Setup
from kueue.pending import Pending
from kueue.snapshot import QuotaSnapshot
from kueue.tree import Tree

Flavors = dict[str, dict[str, str]]


@dataclass(frozen=True)
class Change:
    """One thing that happened: `event` is Admitted, Preempted, Pending, Requeued, Finished or Deactivated.

    Live there is also Evicted: a workload that was not preempted has to go, and still holds its quota.
    """

    at: float
    event: str
    workload: str
    reason: str = ""
    message: str = ""
    cluster_queue: str = ""
    flavors: Flavors = field(default_factory=dict)


class Places:
    """Every workload and its place. Methods return what changed."""

    def __init__(self, setup: Setup, *, live: bool = False) -> None:
        """Start without workloads. Live, who has to go keeps its quota until `gone` says that it went."""
        self.setup, self.live = setup, live
        self.items: dict[str, Item] = {}
        self.cycles = 0
        self.restless: set[float] = set()
        """Moments at which workloads preempted each other without end, until it was given up."""

        self._generations: dict[str, int] = {}
        self._deadlines: list[tuple[float, int, Item, float]] = []
        self._serial = 0
        self._leaving: dict[str, Item] = {}
        """Workloads that have to go and hold quota still."""

        self._unready: set[str] = set()
        self._build()

    def _build(self) -> None:
        setup = self.setup
        self.tree = Tree(setup.cluster_queues.values(), setup.cohorts.values())
        shrink(self.tree, setup.lost)
        self.inactive = dict(self._inactive())
        self.history: UsageHistory | None = None
        fair = setup.config.admission_fair_sharing
        if fair is not None and any(queue.usage_based for queue in setup.cluster_queues.values()):
            weights = {key: queue.weight for key, queue in setup.local_queues.items()}
            self.history = UsageHistory(fair, weights)
        self.pending: dict[str, Pending] = {}
        for name, queue in setup.cluster_queues.items():
            usage = self.history.of if self.history is not None and queue.usage_based else None
            self.pending[name] = Pending(queue.strategy, setup.config, usage)
        held: dict[str, dict[str, Item]] = {name: {} for name in setup.cluster_queues}
        self.snapshot = QuotaSnapshot(setup, self.tree, held, self.inactive)
        self._family: dict[str, tuple[str, ...]] = {}
        for name, node in self.tree.queues.items():
            root = node.root
            self._family[name] = (name,) if root is node else tuple(queue.name for queue in root.all_queues())
        self._dirty: set[tuple[str, ...]] = set(self._family.values())

    def _inactive(self) -> Iterator[tuple[str, str]]:
        """Queues that admit nothing, with the causes."""
        for name, queue in self.setup.cluster_queues.items():
            causes = []
            if queue.stop != NONE:
                causes.append("is stopped")
            used = {flavor.name for group in queue.groups for flavor in group.flavors}
            missing = sorted(used - set(self.setup.flavors))
            if missing:
                causes.append(f"references missing ResourceFlavor(s): {','.join(missing)}")
            if name in self.tree.broken:
                causes.append("is in a cohort that is part of a cycle")
            if causes:
                yield name, f"Can't admit new workloads: {', '.join(causes)}."

    def _wait(self, item: Item, reason: str, message: str, now: float) -> list[Change]:
        """Say why a workload waits, if that is another reason than before."""
        same = item.reason == reason
        item.reason, item.message = reason, message
        return [] if same else [Change(now, "Pending", item.key, reason, message, item.cluster_queue)]

    # Evictions

    def evict(self, item: Item, now: float, reason: str, message: str) -> list[Change]:
        """Take the quota from a workload, and send it back to its queue. Live it goes there once it is gone.

        One that is on its way out already only goes on.
        """
        if self.live and item.key in self._leaving:
            return []
        item.evicted, item.evicted_at = reason, now
        if self.live and item.state == ADMITTED:
            self._leaving[item.key] = item
            flavors = item.admission.flavors() if item.admission is not None else {}
            return [Change(now, "Evicted", item.key, reason, message, item.cluster_queue, flavors)]
        return self._go_back(item, now, reason, message)

    def _go_back(self, item: Item, now: float, reason: str, message: str) -> list[Change]:
        self._let_go(item, now)
        item.state = PENDING
        return [self._requeued(item, now, reason, message), *self._enqueue(item, now)]

    def _deactivate(self, item: Item, now: float, cause: str, message: str) -> list[Change]:
        queue = item.cluster_queue
        if self.live and item.state == ADMITTED:
            if not item.active and item.key in self._leaving:
                return []
            self._leaving[item.key] = item
        else:
            self._let_go(item, now)
            item.state = INACTIVE
        item.active = False
        item.reason = f"{reasons.DEACTIVATED}DueTo{cause}" if cause else reasons.DEACTIVATED
        item.message = message
        if item.state == ADMITTED:
            item.evicted, item.evicted_at = item.reason, now
        return [Change(now, "Deactivated", item.key, cause or reasons.DEACTIVATED, message, queue)]

    def leaving(self, key: str) -> bool:
        """Tell if a workload has to go, but holds its quota still."""
        return key in self._leaving

    @staticmethod
    def _requeued(item: Item, now: float, reason: str, message: str = "") -> Change:
        return Change(now, "Requeued", item.key, reason, message, item.cluster_queue)

    # Places

    def _held(self) -> Iterator[Item]:
        for held in self.snapshot.held.values():
            yield from held.values()

    def _by_usage(self, queue: str) -> bool:
        return self.setup.cluster_queues[queue].usage_based

    def _hold(self, item: Item, now: float) -> None:
        """Count a workload that holds quota already."""
        self.tree.queues[item.cluster_queue].add_all(item.usage)
        self._keep(item, now)

    def _keep(self, item: Item, now: float) -> None:
        self.snapshot.held[item.cluster_queue][item.key] = item
        item.admitted_at = item.since(now)
        if not item.ready:
            self._unready.add(item.key)
            self._set_deadline(item, self._ready_by(item))
        self._set_deadline(item, self._stop_at(item))

    def _stop_at(self, item: Item) -> float | None:
        """The time at which an admitted workload has run for as long as it may; None without a limit."""
        limit, began = item.workload.max_execution, item.admitted_at
        return None if limit is None or began is None else began + limit - item.executed

    def _ready_by(self, item: Item) -> float | None:
        """The time by which the pods of an admitted workload have to run; None where nothing limits it."""
        waits = self.setup.config.pods_ready
        if waits is None or item.ready or item.admitted_at is None:
            return None
        if item.unready_since is None:
            return item.admitted_at + waits.timeout
        return None if waits.recovery is None else item.unready_since + waits.recovery

    def _let_go(self, item: Item, now: float) -> None:
        """Take a workload out of wherever it is; others may fit then."""
        self._now_ready(item)
        self._leaving.pop(item.key, None)
        name = item.cluster_queue
        if item.state == ADMITTED:
            ran = max(0.0, now - item.since(now))
            item.executed += int(ran) if self.live else ran  # a status has whole seconds
            if item.unmanaged:
                item.release()
                return
            self.tree.queues[name].remove_all(item.usage)
            del self.snapshot.held[name][item.key]
            item.release()
            self._generations[name] = self._generations.get(name, 0) + 1
            self._stir(self._family[name])
        elif name in self.pending:
            self.pending[name].remove(item)
            self._dirty.add(self._family[name])

    def _now_ready(self, item: Item) -> None:
        """Wait no longer for the pods of this one; that may end a block on admissions."""
        waits = self.setup.config.pods_ready
        waited = item.key in self._unready
        self._unready.discard(item.key)
        if waited and not self._unready and waits is not None and waits.block_admission:
            self._dirty.update(self._family.values())

    def _stir(self, family: Iterable[str]) -> None:
        """Try all that wait in these queues again."""
        names = tuple(family)
        self._dirty.add(names)
        for name in names:
            self.pending[name].unpark()

    def _enqueue(self, item: Item, now: float) -> list[Change]:
        """Put a workload into the queue that its LocalQueue leads to. Live, one that names none runs."""
        if self.live and item.unmanaged:
            item.reason, item.message = "", ""
            item.evicted, item.evicted_at, item.requeue_at = "", None, None
            self._run(item, now)
            return [Change(now, "Admitted", item.key, "Admitted", "It names no queue, and runs at once")]
        local_queue = self.setup.local_queues.get(item.queue)
        name = local_queue.cluster_queue if local_queue is not None else ""
        item.cluster_queue = name
        if local_queue is None:
            why = reasons.MISCONFIGURED, f"LocalQueue {item.queue[1]} doesn't exist"
        elif name not in self.pending:
            why = reasons.MISCONFIGURED, f"ClusterQueue {name} doesn't exist"
        elif local_queue.stop != NONE:
            why = reasons.SUSPENDED, f"LocalQueue {local_queue.name} is stopped"
        else:
            stopped = self.setup.cluster_queues[name].stop != NONE
            why = reasons.SUSPENDED, f"ClusterQueue {name} is {'stopped' if stopped else 'inactive'}"
            if item.requeue_at is not None and item.requeue_at > now:
                self.pending[name].put_off(item)
            else:
                self.pending[name].push(item)
            self._dirty.add(self._family[name])
            return self._wait(item, *why, now) if name in self.inactive else []
        return self._wait(item, *why, now)

    def _run(self, item: Item, since: float) -> None:
        """Let a workload that names no queue run: of all limits only that of its time is kept."""
        item.state = ADMITTED
        item.reserved_at = item.admitted_at = since
        self._set_deadline(item, self._stop_at(item))

    def _set_deadline(self, item: Item, at: float | None) -> None:
        if at is None:
            return
        self._serial += 1
        heapq.heappush(self._deadlines, (at, self._serial, item, item.admitted_at or 0.0))
