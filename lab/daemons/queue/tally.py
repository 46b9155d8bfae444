"""Counts of what was decided, from the table of events: after a restart they are what they were.

Names and labels are Kueue's (pkg/metrics), without the prefix `kueue_`.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kueue.places import Change
from kueue.reasons import DEACTIVATED, PREEMPTED
from lab.daemons.queue.gauges import PREFIX, QUEUE, ROLE, STANDALONE
from lab.daemons.queue.model import Record

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

PREEMPTOR = re.compile(r"; preemptor path: \S*?([^/\s;]+);")
"""The preempting ClusterQueue in the message of a preempted workload."""


def bounds(count: int) -> tuple[float, ...]:
    """The upper bounds of Kueue's histograms, in seconds: 1, 2.5, 5, 10, ..."""
    return (1.0, *(2.5 * 2**power for power in range(count - 1)))


LONG, SHORT = bounds(16), bounds(14)

CLASS = ("priority_class",)

COUNTERS: dict[str, tuple[tuple[str, ...], str]] = {
    "finished_workloads": (QUEUE + CLASS, "Workloads that finished."),
    "evicted_workloads": (
        (*QUEUE, "reason", "underlying_cause", *CLASS),
        "Times that an admitted workload had to go.",
    ),
    "preempted_workloads": (
        ("preempting_cluster_queue", "reason"),
        "Workloads that had to make room, by the ClusterQueue that they made it for.",
    ),
}
"""Counter without `_total` -> labels and meaning."""

HISTOGRAMS: dict[str, tuple[tuple[str, ...], tuple[float, ...], str]] = {
    "admission_wait_time_seconds": (
        QUEUE + CLASS,
        LONG,
        "Time from creation, or the last return to the queue, to the admission.",
    ),
    "admitted_until_ready_wait_time_seconds": (
        QUEUE + CLASS,
        SHORT,
        "Time from the admission until Ray ran the job.",
    ),
}
"""Histogram -> labels, upper bounds and meaning."""


@dataclass
class WorkloadProgress:
    """The way of one workload, as far as the events go."""

    waits_since: float
    cluster_queue: str = ""
    admitted: bool = False
    leaving: bool = False
    """True while an eviction is under way."""
    admissions: dict[float, str] = field(default_factory=dict)
    """Time of an admission -> ClusterQueue that admitted it."""


class Tally:
    """Counters and histograms, fed with one change after the other."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Begin with nothing; `registry` gets the metrics."""
        from prometheus_client import Counter, Histogram, disable_created_metrics

        disable_created_metrics()  # Kueue has none of these series
        self._counters = {
            name: Counter(PREFIX + name, meaning, (*labels, ROLE), registry=registry)
            for name, (labels, meaning) in COUNTERS.items()
        }
        self._histograms = {
            name: Histogram(PREFIX + name, meaning, (*labels, ROLE), registry=registry, buckets=upper)
            for name, (labels, upper, meaning) in HISTOGRAMS.items()
        }
        self._progress: dict[str, WorkloadProgress] = {}

    def note(self, change: Change, record: Record) -> None:
        """Count what a change of this job says."""
        way = self._progress.setdefault(change.workload, WorkloadProgress(record.created))
        priority_class = record.job.priority_class
        if change.event == "Admitted":
            way.cluster_queue, way.admitted, way.leaving = change.cluster_queue, True, False
            way.admissions[change.at] = change.cluster_queue
            waited = change.at - way.waits_since
            self._observe("admission_wait_time_seconds", waited, way.cluster_queue, priority_class)
        elif change.event == "Preempted":
            match = PREEMPTOR.search(change.message)
            self._count("preempted_workloads", match[1] if match else change.cluster_queue, change.reason)
            self._evicted(way, PREEMPTED, "", priority_class)
        elif change.event == "Evicted":
            self._evicted(way, change.reason, "", priority_class)
        elif change.event == "Deactivated":
            cause = "" if change.reason == DEACTIVATED else change.reason
            self._evicted(way, DEACTIVATED, cause, priority_class)
        elif change.event in ("Requeued", "Pending") and way.admitted:
            way.waits_since, way.admitted, way.leaving = change.at, False, False
        elif change.event == "Finished":
            way.cluster_queue = way.cluster_queue or change.cluster_queue
            self._count("finished_workloads", way.cluster_queue, priority_class)
            way.admitted, way.leaving = False, False

    def started(self, record: Record, admitted_at: float, at: float) -> None:
        """Count an attempt that was admitted then, and that Ray ran from `at` on."""
        way = self._progress.get(record.key)
        if way is not None and admitted_at in way.admissions:
            labels = way.admissions[admitted_at], record.job.priority_class
            self._observe("admitted_until_ready_wait_time_seconds", at - admitted_at, *labels)

    def forget_others(self, workloads: Container[str]) -> None:
        """Keep the way of these only; what was counted stays counted."""
        self._progress = {key: way for key, way in self._progress.items() if key in workloads}

    def _evicted(self, way: WorkloadProgress, reason: str, cause: str, priority_class: str) -> None:
        """Count an eviction; who holds no quota, or is on its way out already, is not evicted."""
        if way.admitted and not way.leaving:
            way.leaving = True
            self._count("evicted_workloads", way.cluster_queue, reason, cause, priority_class)

    def _count(self, name: str, *labels: str) -> None:
        self._counters[name].labels(*labels, STANDALONE).inc()

    def _observe(self, name: str, seconds: float, *labels: str) -> None:
        """Count a time; clocks that were set make no negative ones."""
        self._histograms[name].labels(*labels, STANDALONE).observe(max(0.0, seconds))
