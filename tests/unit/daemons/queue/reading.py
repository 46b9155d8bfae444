"""A controller's state in memory, for what only reads it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from kueue.engine import Engine
from kueue.item import ADMITTED, FINISHED
from kueue.model import Setup, Workload
from kueue.places import Change
from lab.api.queue import Attempt
from lab.daemons.queue.controller import Controller
from lab.daemons.queue.model import DONE, QUEUED, RUNNING, QueuedJob, Record, StoredEvent

NOW = 1000.0


class StillClock:
    """Time that stands still."""

    def __call__(self) -> float:
        return NOW

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody waits here")


class State(Controller):
    """An engine that has decided, with a job for each workload."""

    def __init__(self, given: Setup, *workloads: Workload, **jobs: dict[str, Any]) -> None:
        """`jobs` has the fields of QueuedJob of the workloads with these names."""
        self.lock = threading.RLock()
        self.clock, self.resource = StillClock(), "nvidia.com/gpu"
        self.away, self.capacity = {}, {}
        self.engine = Engine(given)
        self.stored: list[StoredEvent] = []
        self.records = {}
        for workload in workloads:
            self._note(self.engine.submit(workload, NOW))
        self._note(self.engine.settle(NOW))
        for workload in workloads:
            self.records[workload.key] = self._record(workload, jobs.get(workload.name, {}))

    def _note(self, changes: Sequence[Change]) -> None:
        self.stored += (
            StoredEvent(len(self.stored) + place, change) for place, change in enumerate(changes, 1)
        )

    def _record(self, workload: Workload, fields: dict[str, Any]) -> Record:
        item = self.engine.items[workload.key]
        phases = {ADMITTED: RUNNING, FINISHED: DONE}
        attempts: tuple[Attempt, ...] = ()
        if item.state in phases:
            attempts = (Attempt(1, workload.name, item.admitted_at or 0.0),)
        job = QueuedJob(**{"command": ("python", "train.py"), "attempts": attempts, **fields})
        finished = NOW if item.state == FINISHED else None
        return Record(workload.key, job, phases.get(item.state, QUEUED), workload.created, finished)

    def events(self, since: int = 0, limit: int = 1000, workload: str = "") -> list[StoredEvent]:
        events = [event for event in self.stored if workload in ("", event.change.workload)]
        return [event for event in events if event.number > since][:limit]
