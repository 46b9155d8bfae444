"""`GET /metrics`: the queues under Kueue's names, so that what was made for Kueue shows them too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lab.daemons.queue import gauges
from lab.daemons.queue.model import Record
from lab.daemons.queue.reader import Metrics, Reader
from lab.daemons.queue.tally import COUNTERS, HISTOGRAMS, TalliedJob, Tally

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector

PREFIX = "kueue_"
ROLE = ("replica_role", "standalone")
"""Label that every metric of Kueue has, and its value where there is one controller."""

PAGE = 1000
"""Events that are read at a time."""

MEANINGS = {
    "admitted_workloads": "Times that a workload was admitted.",
    "finished_workloads": "Workloads that finished.",
    "evicted_workloads": "Times that an admitted workload had to go.",
    "preempted_workloads": "Workloads that had to make room, by the ClusterQueue that they made it for.",
    "admission_wait_time_seconds": "Time from creation, or the last return to the queue, to the admission.",
    "workload_eviction_latency_seconds": "Time from the eviction until the quota was free again.",
    "admitted_until_ready_wait_time_seconds": "Time from the admission until Ray ran the job.",
}
"""One sentence on each counter and histogram."""


class QueueCollector:
    """Gives prometheus_client the metrics of one controller."""

    def __init__(self, reader: Reader) -> None:
        """Nothing is read before the first question."""
        self._reader, self._tally = reader, Tally()
        self._read_up_to = 0
        self._started: set[str] = set()
        """Submission ids of the attempts that were counted."""

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        role, only = ROLE
        with self._reader.lock:
            self._catch_up()
            sheet = gauges.read(self._reader.engine)
        for name, (labels, said) in gauges.GAUGES.items():
            gauge = GaugeMetricFamily(PREFIX + name, said, labels=[*labels, role])
            for key, value in sheet.values[name].items():
                gauge.add_metric([*key, only], value)
            yield gauge
        for name, labels in COUNTERS.items():
            counter = CounterMetricFamily(PREFIX + name, MEANINGS[name], labels=[*labels, role])
            for key, count in self._tally.counters[name].items():
                counter.add_metric([*key, only], count)
            yield counter
        for name, (labels, _) in HISTOGRAMS.items():
            histogram = HistogramMetricFamily(PREFIX + name, MEANINGS[name], labels=[*labels, role])
            for key, observed in self._tally.histograms[name].items():
                histogram.add_metric([*key, only], observed.buckets(), observed.sum)
            yield histogram

    def _catch_up(self) -> None:
        """Count what was decided, and what Ray began to run, since the last question."""
        while page := self._reader.events(self._read_up_to, PAGE):
            for event in page:
                job = self._job(event.change.workload)
                if job is not None:
                    self._tally.note(event.change, job)
            self._read_up_to = page[-1].number
        jobs = self._reader.jobs
        for record in jobs.values():
            self._count_started(record)
        self._started &= {
            attempt.submission_id for record in jobs.values() for attempt in record.job.attempts
        }
        self._tally.forget_others(jobs)

    def _count_started(self, record: Record) -> None:
        job = self._job(record.key)
        for attempt in record.job.attempts:
            known = attempt.submission_id in self._started
            if job is not None and attempt.started_at is not None and not known:
                self._started.add(attempt.submission_id)
                self._tally.started(record.key, job, attempt.admitted_at, attempt.started_at)

    def _job(self, key: str) -> TalliedJob | None:
        """The labels of a workload; None for an event that is of none."""
        record = self._reader.jobs.get(key)
        if record is None or key not in self._reader.engine.items:
            return None
        return TalliedJob(record.job.priority_class, record.created)


def exposition(reader: Reader, *more: Collector) -> Metrics:
    """A function that gives the text of `GET /metrics`, with `more` collectors' metrics too."""
    collectors = (QueueCollector(reader), *more)

    def text() -> bytes:
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        for collector in collectors:
            registry.register(collector)
        return bytes(generate_latest(registry))

    return text
