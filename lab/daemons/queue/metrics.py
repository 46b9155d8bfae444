"""`GET /metrics`: the queues under Kueue's names, so that what was made for Kueue shows them too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from lab.daemons.queue import gauges
from lab.daemons.queue.controller import Controller
from lab.daemons.queue.model import Record
from lab.daemons.queue.tally import Tally

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector

PAGE = 1000
"""Events that are read at a time."""


class QueueCollector:
    """Gives prometheus_client the gauges of one controller, once all that was decided is counted."""

    def __init__(self, controller: Controller, tally: Tally) -> None:
        self._controller, self._tally = controller, tally
        self._read_up_to = 0
        self._started: set[str] = set()
        """Submission ids of the attempts that were counted."""

    def collect(self) -> Iterable[Metric]:
        with self._controller.lock:
            self._catch_up()
            return gauges.read(self._controller.engine)

    def _catch_up(self) -> None:
        """Count what was decided, and what Ray began to run, since the last question."""
        while page := self._controller.events(self._read_up_to, PAGE):
            for event in page:
                record = self._record(event.change.workload)
                if record is not None:
                    self._tally.note(event.change, record)
            self._read_up_to = page[-1].number
        records = self._controller.records
        for record in records.values():
            self._count_started(record)
        self._started &= {
            attempt.submission_id for record in records.values() for attempt in record.job.attempts
        }
        self._tally.forget_others(records)

    def _count_started(self, record: Record) -> None:
        for attempt in record.job.attempts:
            if attempt.started_at is not None and attempt.submission_id not in self._started:
                self._started.add(attempt.submission_id)
                self._tally.started(record, attempt.admitted_at, attempt.started_at)

    def _record(self, key: str) -> Record | None:
        """The job of an event; None for an event that is of none."""
        return self._controller.records.get(key) if key in self._controller.engine.items else None


def exposition(controller: Controller, *more: Collector) -> Callable[[], bytes]:
    """A function that gives the text of `GET /metrics`, with `more` collectors' metrics too."""
    from prometheus_client import CollectorRegistry, generate_latest

    counts, registry = CollectorRegistry(auto_describe=False), CollectorRegistry(auto_describe=False)
    for collector in (QueueCollector(controller, Tally(counts)), counts, *more):  # counts are read last
        registry.register(collector)
    return lambda: bytes(generate_latest(registry))
