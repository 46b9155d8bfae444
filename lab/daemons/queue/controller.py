"""The controller: what was decided, written before anything is done about it.

Everything that it knows is in the engine and in `records`, and both are what the file says. A change is made
in a `Draft`, committed as one transaction, and only then acted upon: a controller that is killed at any point
finds in the file what is left to do.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from kueue.engine import Engine
from kueue.item import ADMITTED, FINISHED, PENDING
from kueue.live import begin, setup_of, workload_in
from kueue.model import Setup
from kueue.places import Change
from kueue.reasons import EXECUTION_TIME, PODS_READY_TIMEOUT
from kueue.status import workload_of
from kueue.writing import Object, objects, workload_object
from lab.api.queue import Attempt, Stop
from lab.daemons.queue.model import (
    DONE,
    HOLDING,
    INACTIVE,
    QUEUED,
    STOPPING,
    SUBMITTING,
    Record,
    StoredEvent,
    submission_id,
)
from lab.daemons.queue.packages import Packages
from lab.daemons.queue.retention import MOST_EVENTS, MOST_FINISHED, abandoned, outlived
from lab.daemons.queue.store import Batch, StateStore, damage
from lab.errors import StateError
from lab.host.clock import WALL, Clock

ORDERS = ("Preempted", "Evicted", "Deactivated")
"""Events after which a workload that holds quota has to go."""

NO_GRACE = (PODS_READY_TIMEOUT, EXECUTION_TIME)
"""Reasons to go for which no checkpoint is waited for."""


class Controller:
    """The queues of one lab, in memory and on disk. Its methods may be called from several threads."""

    def __init__(
        self,
        store: StateStore,
        packages: Packages,
        *,
        clock: Clock = WALL,
        resource: str = "nvidia.com/gpu",
        queued_only: bool = False,
    ) -> None:
        """Go on with what the file says. `resource` is what quotas call a GPU.

        With `queued_only` no job is taken that names no queue. Raises StateError.
        """
        self.most_finished = MOST_FINISHED
        self.lock = threading.RLock()
        self.clock, self.resource, self.packages = clock, resource, packages
        self.queued_only = queued_only
        self.away: Mapping[str, str] = {}
        """`ray` or `store` -> reason why it does not answer; empty when both do."""
        self.capacity: Mapping[str, int] = {}
        """CPUs and GPUs of the lab, as quotas count them; empty while its nodes are not known."""
        self.wake = threading.Event()
        """Set when there is something to decide."""
        self.engine: Engine
        self.records: dict[str, Record] = {}
        """Key -> job, in the order of their creation; `engine.items[key]` belongs to it."""
        self.holding: set[str] = set()
        """Keys of the jobs that hold quota."""
        self.waiting: set[str] = set()
        """Keys of the jobs that wait for quota."""
        self._store = store
        self._stale = True
        self._fresh()

    # Reading, under `lock`

    @property
    def setup(self) -> Setup:
        """Quotas and queues as they are now."""
        return self.engine.setup

    def events(self, since: int = 0, limit: int = 1000, workload: str = "") -> list[StoredEvent]:
        """Events with a number above `since`, oldest first; with `workload` those of one."""
        return self._store.events(since, limit, workload)

    def now(self) -> float:
        """The time, as precisely as a status says it."""
        return round(self.clock(), 6)

    # Changing

    @contextmanager
    def change(self) -> Iterator[Draft]:
        """Make a change that is there as a whole, on disk, when the block has ended, or not at all."""
        with self.lock:
            self._fresh()
            draft = Draft(self, self.now())
            try:
                yield draft
                if draft.made:
                    self._store.commit(draft.batch())
            except BaseException as error:
                self._stale = draft.made
                if draft.made and isinstance(error, Exception):
                    with suppress(StateError):  # readers must not see what was not written
                        self._fresh()
                raise

    def tidy(self) -> None:
        """Drop what is too old to matter: finished jobs, early events of long lives.

        Nothing that has not finished is dropped; a job that was given up has. Raises StateError.
        """
        with self.change() as draft:
            kept, items = self.setup.config.keep_finished, self.engine.items
            for key in abandoned(self.records.values(), items, draft.now, kept):
                draft.finish(key, "Failed", items[key].message)
            if old := outlived(self.records.values(), draft.now, kept, self.most_finished):
                draft.forget(old)
        with self.lock:
            self._store.trim(MOST_EVENTS)

    def _fresh(self) -> None:
        """Read the file where memory may be ahead of it: at the start, and after a change that failed."""
        if not self._stale:
            return
        loaded, now = self._store.load(), self.now()
        documents = [*loaded.objects, *(document for _, document in loaded.workloads)]
        try:
            self.engine, changes = begin(documents, now, loaded.usage)
        except (KeyError, ValueError) as error:
            raise damage(self._store.path, error) from error
        self.records = {record.key: record for record, _ in loaded.workloads}
        self.holding = {key for key, record in self.records.items() if record.phase in HOLDING}
        self.waiting = {key for key, record in self.records.items() if record.phase == QUEUED}
        draft = Draft(self, now)
        draft.note(changes)
        for key in sorted(key for key in self.holding if self.records[key].attempt is None):
            draft.finish(key, "Failed", "It has no attempt: an earlier version let it in")
        self._store.commit(draft.batch())
        self._stale = False


class Draft:
    """A change while it is made: calls into the engine, and what they mean for the jobs."""

    def __init__(self, controller: Controller, now: float) -> None:
        self.now = now
        self.changes: list[Change] = []
        self._controller = controller
        self._called = False
        self._touched: dict[str, None] = {}
        self._objects: list[Object] | None = None
        self._forgotten: list[str] = []

    @property
    def made(self) -> bool:
        """True once anything was changed."""
        return bool(self._called or self._touched or self.changes)

    @property
    def engine(self) -> Engine:
        """The engine, to be changed: what a call has done that fails half way must not be kept in memory."""
        self._called = True
        return self._controller.engine

    def note(self, changes: Sequence[Change], *touched: str) -> None:
        """Let the jobs follow what a call changed, and those of the keys that it was about."""
        self.changes += changes
        for key in dict.fromkeys((*(change.workload for change in changes), *touched)):
            if key in self._controller.engine.items:
                self._follow(key, changes)

    def add(self, record: Record, document: Object) -> None:
        self.put(record)
        self.note(self.engine.submit(workload_in(document), self.now))

    def finish(self, key: str, reason: str, message: str) -> None:
        """End the workload of a job."""
        self.note(self.engine.finish(key, self.now, reason, message), key)

    def gone(self, key: str, message: str) -> None:
        """Free the quota of a job that runs no more."""
        self.note(self.engine.gone(key, self.now, message), key)

    def set_ready(self, key: str, ready: bool) -> None:
        """Record that a job runs with all that it was granted, or no more."""
        self.engine.set_ready(key, ready, self.now)
        self.note((), key)

    def put(self, record: Record) -> None:
        self._controller.records[record.key] = record
        for keys, phases in ((self._controller.holding, HOLDING), (self._controller.waiting, (QUEUED,))):
            (keys.add if record.phase in phases else keys.discard)(record.key)
        self._touched[record.key] = None

    def forget(self, keys: Sequence[str]) -> None:
        """Drop finished jobs."""
        self.engine.forget(keys)
        for key in keys:
            del self._controller.records[key]
            self._touched.pop(key, None)
        self._forgotten += keys

    def attempt(self, record: Record) -> None:
        """Begin the next attempt of a job that holds quota."""
        number = len(record.job.attempts) + 1
        attempt = Attempt(number, submission_id(record.name, number), self.now)
        self.put(replace(record.with_attempt(attempt), phase=SUBMITTING, stop=None))

    def tell(self, event: str, key: str, reason: str, message: str) -> None:
        """Add an event that the engine knows nothing of."""
        item = self._controller.engine.items.get(key)
        queue = item.cluster_queue if item is not None else ""
        self.changes.append(Change(self.now, event, key, reason, message, queue))

    def apply(self, setup: Setup) -> None:
        """Go on with other quotas and queues."""
        self._objects = list(objects(setup))
        engine = self.engine
        before = engine.setup
        written = replace(setup_of(self._objects), lost=before.lost, nodes=before.nodes)
        self.note([*engine.apply(written, self.now), *engine.drain(self.now)])

    def batch(self) -> Batch:
        controller = self._controller
        history = controller.engine.history
        return Batch(
            self._objects,
            [
                (controller.records[key], workload_object(workload_of(controller.engine.items[key])))
                for key in self._touched
            ],
            self.changes,
            None if history is None else history.status(),
            self._forgotten,
        )

    # What the engine decided, for a job

    def _follow(self, key: str, changes: Sequence[Change]) -> None:
        """Bring a job into the phase that the state of its workload asks for."""
        record, item = self._controller.records[key], self._controller.engine.items[key]
        self._touched[key] = None
        if item.state == FINISHED:
            if record.phase != DONE:
                self.put(replace(record, phase=DONE, finished_at=self.now, stop=None))
        elif item.state != ADMITTED:
            phase = QUEUED if item.state == PENDING else INACTIVE
            if record.phase != phase:
                self.put(replace(record, phase=phase, stop=None))
        elif record.phase not in HOLDING:
            self.attempt(record)
        elif self._controller.engine.leaving(key):
            self._order(record, changes)

    def _order(self, record: Record, changes: Sequence[Change]) -> None:
        """Order a job to stop, or change what comes after it; a cancelled one stays cancelled."""
        item, stop = self._controller.engine.items[record.key], record.stop
        to = QUEUED if item.active else INACTIVE
        if stop is None:
            order = next((c for c in changes if c.workload == record.key and c.event in ORDERS), None)
            cause = order.reason if order is not None else item.evicted
            grace = 0.0 if cause in NO_GRACE else record.job.grace
            message = order.message if order is not None else item.message
            stop = Stop(to, item.evicted, message, self.now, grace)
            self.put(replace(record, phase=STOPPING, stop=stop))
        elif stop.to not in (to, DONE):
            self.put(replace(record, stop=replace(stop, to=to, reason=item.evicted, charged=False)))
