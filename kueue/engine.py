"""The state machine behind the queues: workloads come and go, cycles decide, and time runs out.

It reads no clock: every call says what time it is. The same calls give the same decisions.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from kueue import reasons
from kueue.cycle import Cycle, Entry, preemption_messages
from kueue.item import ADMITTED, FINISHED, INACTIVE, PENDING, Item
from kueue.model import BEST_EFFORT_FIFO as BEST_EFFORT
from kueue.model import HOLD_AND_DRAIN, NONE, STRICT_FIFO, Setup, Workload
from kueue.places import Change, Places


class Engine(Places):
    """Queues that decide. Methods return what changed."""

    # Events from outside

    def submit(self, workload: Workload, now: float) -> list[Change]:
        """Take a workload in, with what its status says."""
        item = self.items[workload.key] = Item(workload)
        if not self.live:
            item.reason = item.message = ""
        if workload.finished:
            item.state, item.reason = FINISHED, workload.finished
            return []
        given = workload.admission
        if given is not None and given.cluster_queue in self.setup.cluster_queues:
            kept = item.evicted, item.evicted_at, item.message, item.requeue_at
            item.reserve(given, workload.reserved_at)
            item.evicted, item.evicted_at, item.message, item.requeue_at = kept
            if not item.active:
                item.reason = item.evicted
            item.admitted_at = workload.admitted_at if workload.admitted_at is not None else item.reserved_at
            self._hold(item, now)
            if item.evicted:
                self._leaving[item.key] = item
            return []
        if self.live and item.unmanaged and workload.admitted_at is not None:  # it runs still
            self._run(item, workload.admitted_at)
            if item.evicted:
                item.reason = "" if item.active else item.evicted
                self._leaving[item.key] = item
            return []
        if not item.active:
            item.state = INACTIVE
            return []
        return self._enqueue(item, now)

    def finish(self, key: str, now: float, reason: str = "Succeeded", message: str = "") -> list[Change]:
        """Record the end of a workload."""
        item = self.items[key]
        flavors = item.admission.flavors() if item.admission is not None else {}
        queue = item.cluster_queue
        self._let_go(item, now)
        item.state, item.reason, item.message = FINISHED, reason, message
        return [Change(now, "Finished", key, reason, message or "Job finished", queue, flavors)]

    def forget(self, keys: Iterable[str]) -> None:
        """Keep finished workloads no longer; others stay, whatever is asked."""
        for key in keys:
            if self.items[key].state == FINISHED:
                del self.items[key]

    def set_ready(self, key: str, ready: bool, now: float) -> None:
        """Record that the pods of an admitted workload run now, or do not any more."""
        item = self.items[key]
        if item.state != ADMITTED or item.ready == ready:
            return
        item.ready = ready
        if item.unmanaged:
            return
        if ready:
            item.unready_since = None
            self._now_ready(item)
        else:
            item.unready_since = now
            self._unready.add(key)
            self._set_deadline(item, self._ready_by(item))

    def set_active(self, key: str, active: bool, now: float) -> list[Change]:
        """Deactivate a workload, or let it queue again."""
        item = self.items[key]
        if item.active == active or item.state == FINISHED:
            return []
        if not active:
            return self._deactivate(item, now, "", "The workload is deactivated")
        item.active, item.requeues, item.requeue_at = True, 0, None
        if item.state == ADMITTED:  # it is on its way out, and comes back to its queue
            return [self._requeued(item, now, reasons.REACTIVATED)]
        item.state = PENDING
        return [self._requeued(item, now, reasons.REACTIVATED), *self._enqueue(item, now)]

    def gone(self, key: str, now: float, message: str = "") -> list[Change]:
        """Record that a workload which had to go, or was lost, runs no more: its quota is free."""
        item = self.items[key]
        if item.state != ADMITTED:
            return []
        if not item.active:
            self._let_go(item, now)
            item.state = INACTIVE
            return []
        if not item.evicted:
            item.evicted, item.evicted_at = reasons.NODE_FAILURES, now
        return self._go_back(item, now, item.evicted, message)

    def apply(self, setup: Setup, now: float) -> list[Change]:
        """Go on with other quotas and queues. Running workloads keep what they hold."""
        before = self.setup
        waiting = [item for item in self.items.values() if item.state == PENDING]
        held = [item for item in self.items.values() if item.state == ADMITTED and not item.unmanaged]
        history = self.history
        sticky = {id(pending.sticky) for pending in self.pending.values()}
        self.setup = setup
        self._build()
        if self.history is not None and history is not None:
            self.history.take_over(history)
        for item in held:
            if item.cluster_queue in setup.cluster_queues:
                self._hold(item, now)
            else:
                item.release()
                item.state = PENDING
                waiting.append(item)
        changes = []
        for item in waiting:
            item.tried = None
            changes += self._restarted(item, before, now)
            changes += self._enqueue(item, now)
            if id(item) in sticky:
                self._stick(item)
        return changes

    def _restarted(self, item: Item, before: Setup, now: float) -> list[Change]:
        """The return of a workload whose queue was stopped and goes on."""
        old, new = before.local_queues.get(item.queue), self.setup.local_queues.get(item.queue)
        if old is None or new is None:
            return []
        if old.stop != NONE and new.stop == NONE:
            return [self._requeued(item, now, reasons.LOCAL_QUEUE_RESTARTED)]
        queues = (
            before.cluster_queues.get(old.cluster_queue),
            self.setup.cluster_queues.get(new.cluster_queue),
        )
        if queues[0] is not None and queues[1] is not None and queues[0].stop != NONE == queues[1].stop:
            return [self._requeued(item, now, reasons.QUEUE_RESTARTED)]
        return []

    # Time

    def next_due(self) -> float | None:
        """The time at which `due` has something to do."""
        times = [queue.next_wake() for queue in self.pending.values()]
        while self._deadlines and not self._valid(self._deadlines[0]):
            heapq.heappop(self._deadlines)
        if self._deadlines:
            times.append(self._deadlines[0][0])
        return min((time for time in times if time is not None), default=None)

    def due(self, now: float) -> list[Change]:
        """Do all whose time has come: back-offs end, timeouts and execution times run out."""
        changes = []
        for name, pending in self.pending.items():
            for item in pending.wake(now):
                item.requeue_at = None
                changes.append(self._requeued(item, now, reasons.BACKOFF_FINISHED))
                self._dirty.add(self._family[name])
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline = heapq.heappop(self._deadlines)
            if self._valid(deadline):
                changes += self._expired(deadline[2], now)
        return changes

    def sample(self, now: float) -> None:
        """Look at the usage of LocalQueues, where admission fair sharing goes by it."""
        if self.history is not None:
            self.history.sample(now, (item for held in self.snapshot.held.values() for item in held.values()))
            self._dirty.update(self._family.values())

    @staticmethod
    def _valid(deadline: tuple[float, int, Item, float]) -> bool:
        item = deadline[2]
        return item.state == ADMITTED and not item.evicted and (item.admitted_at or 0.0) == deadline[3]

    def _expired(self, item: Item, now: float) -> list[Change]:
        """Evict what took too long to start, and deactivate what ran too long."""
        stop_at = self._stop_at(item)
        if stop_at is not None and now >= stop_at - 1e-9:
            message = "The workload exceeded its maximum execution time"
            return self._deactivate(item, now, reasons.EXECUTION_TIME, message)
        waits, ready_by = self.setup.config.pods_ready, self._ready_by(item)
        if waits is None or ready_by is None or now < ready_by - 1e-9:
            return []
        item.requeues += 1
        if waits.backoff_limit is not None and item.requeues > waits.backoff_limit:
            message = "exceeding the maximum number of re-queuing retries"
            return self._deactivate(item, now, reasons.REQUEUING_LIMIT, message)
        item.requeue_at = now + waits.backoff(item.requeues)
        message = f"Exceeded the PodsReady timeout {item.key}"
        return self.evict(item, now, reasons.PODS_READY_TIMEOUT, message)

    # Cycles

    @property
    def stirred(self) -> bool:
        """Tell if something happened since the last `settle` that may let it decide otherwise."""
        return bool(self._dirty)

    def drain(self, now: float) -> list[Change]:
        """Evict what stop policies do not let run, and deactivate what is marked so."""
        changes = []
        for item in list(self._held()):
            queue = self.setup.cluster_queues[item.cluster_queue]
            local_queue = self.setup.local_queues.get(item.queue)
            if not item.active:
                changes += self._deactivate(item, now, "", "The workload is deactivated")
            elif queue.stop == HOLD_AND_DRAIN:
                changes += self.evict(item, now, reasons.QUEUE_STOPPED, "The ClusterQueue is stopped")
            elif local_queue is not None and local_queue.stop == HOLD_AND_DRAIN:
                changes += self.evict(item, now, reasons.LOCAL_QUEUE_STOPPED, "The LocalQueue is stopped")
        return changes

    def settle(self, now: float, limit: int | None = None) -> list[Change]:
        """Run cycles until nothing changes any more, or `limit` of them.

        Preempted work goes at once, unless this is live.
        """
        changes: list[Change] = []
        left = 200 + 4 * len(self.items) if limit is None else limit
        while self._dirty and left:
            changes += self.cycle(now)
            if not self.live:
                changes += self.release_evicted(now)
            left -= 1
        if self._dirty and limit is None:
            self.restless.add(now)
        self._dirty.clear()
        return changes

    def cycle(self, now: float) -> list[Change]:
        """Decide about one head of each ClusterQueue. Victims still hold their quota afterwards."""
        self.cycles += 1
        heads, families = [], sorted(self._dirty)
        for family in families:
            for name in family:
                item = None if name in self.inactive else self.pending[name].pop()
                if item is not None:
                    item.cluster_queue = name
                    heads.append(item)
        self.snapshot.now = now
        if self.history is not None:
            keys = {item.queue for item in self._held() if self._by_usage(item.cluster_queue)}
            self.snapshot.local_usage = {key: self.history.of(key) for key in keys}
        waits = self.setup.config.pods_ready
        blocked = waits is not None and waits.block_admission and bool(self._unready)
        entries = Cycle(self.snapshot, self._generations, self.cycles, blocked=blocked).run(heads)
        changes: list[Change] = []
        for entry in entries:
            changes += self._conclude(entry, now)
        active = {self._family[entry.item.cluster_queue] for entry in entries if self._moved(entry)}
        self._dirty.intersection_update(active)
        return changes

    def _moved(self, entry: Entry) -> bool:
        """Tell if another cycle may decide otherwise, because this entry is not where it was."""
        strict = self.setup.cluster_queues[entry.item.cluster_queue].strategy == STRICT_FIFO
        if entry.admission is not None or (entry.preempts and (entry.fresh or not self.live)):
            return True
        tried = entry.item.tried
        return (tried is not None and tried.pending) or entry.alone or (not strict and not entry.again)

    def _conclude(self, entry: Entry, now: float) -> list[Change]:
        item = entry.item
        name, pending = item.cluster_queue, self.pending[item.cluster_queue]
        if entry.admission is not None:
            item.reserve(entry.admission, now)
            self._keep(item, now)
            self._generations[name] = self._generations.get(name, 0) + 1  # Kueue takes it out and in again
            if self.history is not None and self._by_usage(name):
                self.history.charge(item, now, self.snapshot.held[name].values())
            if pending.sticky is item:
                pending.sticky = None
            flavors = entry.admission.flavors()
            message = f"Quota reserved in ClusterQueue {name}; admitted by ClusterQueue {name}"
            return [Change(now, "Admitted", item.key, "Admitted", message, name, flavors)]
        changes = []
        if entry.preempts:
            preempted = self._preempt(entry, now)
            entry.fresh = bool(preempted)
            changes += preempted
        if entry.awaits:
            self._stick(item)
        changes += self._wait(item, entry.reason, entry.message, now)
        if entry.alone:
            pending.park_alone(item)
        elif (
            pending.strategy != BEST_EFFORT or entry.again or (item.tried is not None and item.tried.pending)
        ):
            pending.push(item)
        else:
            pending.park(item, entry.reason, entry.message)
        return changes

    def _stick(self, item: Item) -> None:
        """Let nobody overtake it in a BestEffortFIFO queue until it is admitted or gone."""
        pending = self.pending.get(item.cluster_queue)
        if pending is not None and pending.strategy == BEST_EFFORT:
            pending.sticky = item

    def _preempt(self, entry: Entry, now: float) -> list[Change]:
        changes = []
        for victim, message in preemption_messages(self.snapshot, entry):
            item = victim.item
            if item.evicted:
                continue  # on its way out already
            item.evicted, item.evicted_at = reasons.PREEMPTED, now
            self._leaving[item.key] = item
            flavors = item.admission.flavors() if item.admission is not None else {}
            changes.append(
                Change(now, "Preempted", item.key, victim.reason, message, item.cluster_queue, flavors)
            )
        return changes

    def release_evicted(self, now: float) -> list[Change]:
        """Let all that were preempted give their quota back."""
        changes = []
        leaving, self._leaving = self._leaving, {}
        for item in leaving.values():
            if item.state == ADMITTED:
                changes += self._go_back(item, now, item.evicted, "Preempted; waits at its old place")
        return changes

    def condition(self, item: Item) -> tuple[str, str]:
        """Reason and message of a workload that waits."""
        pending = self.pending.get(item.cluster_queue)
        if item.state != PENDING or pending is None:
            return item.reason, item.message
        return pending.condition(item)
