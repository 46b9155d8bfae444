"""Counts of what was decided, from the table of events: after a restart they are what they were.

Names and labels are Kueue's (pkg/metrics), without the prefix `kueue_`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Container
from dataclasses import dataclass, field

from kueue.places import Change
from kueue.reasons import DEACTIVATED, PREEMPTED

Labels = tuple[str, ...]

PREEMPTOR = re.compile(r"; preemptor path: \S*?([^/\s;]+);")
"""The preempting ClusterQueue in the message of a preempted workload."""


def bounds(count: int) -> tuple[float, ...]:
    """The upper bounds of Kueue's histograms, in seconds: 1, 2.5, 5, 10, ..."""
    return (1.0, *(2.5 * 2**power for power in range(count - 1)))


LONG, SHORT = bounds(16), bounds(14)

QUEUE, CLASS = ("cluster_queue",), ("priority_class",)

COUNTERS: dict[str, tuple[str, ...]] = {
    "admitted_workloads": QUEUE + CLASS,
    "finished_workloads": QUEUE + CLASS,
    "evicted_workloads": (*QUEUE, "reason", "underlying_cause", *CLASS),
    "preempted_workloads": ("preempting_cluster_queue", "reason"),
}
"""Counter without `_total` -> labels."""

HISTOGRAMS: dict[str, tuple[tuple[str, ...], tuple[float, ...]]] = {
    "admission_wait_time_seconds": (QUEUE + CLASS, LONG),
    "workload_eviction_latency_seconds": ((*QUEUE, "reason"), SHORT),
    "admitted_until_ready_wait_time_seconds": (QUEUE + CLASS, SHORT),
}
"""Histogram -> labels and upper bounds."""


class Histogram:
    """Observations, by upper bounds in seconds."""

    def __init__(self, upper: tuple[float, ...]) -> None:
        """Start without any."""
        self.upper, self.sum = upper, 0.0
        self.counts = [0] * (len(upper) + 1)

    def observe(self, seconds: float) -> None:
        """Count one; clocks that were set make no negative ones."""
        seconds = max(0.0, seconds)
        self.counts[bisect_left(self.upper, seconds)] += 1
        self.sum += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Upper bound and cumulative count of each, as Prometheus has them."""
        cumulative, total = [], 0
        for bound, count in zip((*map(str, self.upper), "+Inf"), self.counts, strict=True):
            total += count
            cumulative.append((bound, float(total)))
        return cumulative


@dataclass(frozen=True)
class TalliedJob:
    """What a workload is counted under."""

    priority_class: str
    created: float


@dataclass
class WorkloadProgress:
    """The way of one workload, as far as the events go."""

    waits_since: float
    cluster_queue: str = ""
    admitted_at: float | None = None
    leaving: tuple[str, float] | None = None
    """Reason of the eviction that is under way, and its time."""
    admissions: dict[float, str] = field(default_factory=dict)
    """Time of an admission -> ClusterQueue that admitted it."""


class Tally:
    """Counters and histograms, fed with one change after the other."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.counters: dict[str, dict[Labels, int]] = {name: defaultdict(int) for name in COUNTERS}
        self.histograms: dict[str, dict[Labels, Histogram]] = {name: {} for name in HISTOGRAMS}
        self._progress: dict[str, WorkloadProgress] = {}

    def note(self, change: Change, job: TalliedJob) -> None:
        """Count what a change says."""
        way = self._progress.setdefault(change.workload, WorkloadProgress(job.created))
        if change.event == "Admitted":
            way.cluster_queue, way.admitted_at, way.leaving = change.cluster_queue, change.at, None
            way.admissions[change.at] = change.cluster_queue
            self._count("admitted_workloads", way, job.priority_class)
            self._observe("admission_wait_time_seconds", way, job, change.at - way.waits_since)
        elif change.event == "Preempted":
            match = PREEMPTOR.search(change.message)
            by = match[1] if match else change.cluster_queue
            self.counters["preempted_workloads"][by, change.reason] += 1
            self._evicted(way, job, PREEMPTED, "", change.at)
        elif change.event == "Evicted":
            self._evicted(way, job, change.reason, "", change.at)
        elif change.event == "Deactivated":
            cause = "" if change.reason == DEACTIVATED else change.reason
            self._evicted(way, job, DEACTIVATED, cause, change.at)
        elif change.event in ("Requeued", "Pending"):
            self._back(way, change)
        elif change.event == "Finished":
            way.cluster_queue = way.cluster_queue or change.cluster_queue
            self._count("finished_workloads", way, job.priority_class)
            way.admitted_at = way.leaving = None

    def started(self, workload: str, job: TalliedJob, admitted_at: float, at: float) -> None:
        """Count an attempt that was admitted then, and that Ray ran from `at` on."""
        way = self._progress.get(workload)
        if way is not None and admitted_at in way.admissions:
            progress = WorkloadProgress(job.created, way.admissions[admitted_at])
            self._observe("admitted_until_ready_wait_time_seconds", progress, job, at - admitted_at)

    def forget_others(self, workloads: Container[str]) -> None:
        """Keep the way of these only; what was counted stays counted."""
        self._progress = {key: way for key, way in self._progress.items() if key in workloads}

    def _evicted(self, way: WorkloadProgress, job: TalliedJob, reason: str, cause: str, at: float) -> None:
        """Count an eviction; who holds no quota, or is on its way out already, is not evicted."""
        if way.admitted_at is None or way.leaving is not None:
            return
        way.leaving = (reason, at)
        self._count("evicted_workloads", way, reason, cause, job.priority_class)

    def _back(self, way: WorkloadProgress, change: Change) -> None:
        """A workload that held quota waits again."""
        if way.admitted_at is None:
            return
        if way.leaving is not None:
            reason, since = way.leaving
            latency = self._histogram("workload_eviction_latency_seconds", (way.cluster_queue, reason))
            latency.observe(change.at - since)
        way.waits_since, way.admitted_at, way.leaving = change.at, None, None

    def _count(self, name: str, way: WorkloadProgress, *labels: str) -> None:
        key: Labels = (way.cluster_queue, *labels)
        self.counters[name][key] += 1

    def _observe(self, name: str, way: WorkloadProgress, job: TalliedJob, seconds: float) -> None:
        self._histogram(name, (way.cluster_queue, job.priority_class)).observe(seconds)

    def _histogram(self, name: str, labels: Labels) -> Histogram:
        kept = self.histograms[name]
        if labels not in kept:
            kept[labels] = Histogram(HISTOGRAMS[name][1])
        return kept[labels]
