"""The views as Prometheus metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lab.cluster.api import Node
from lab.daemons.metrics.follower import Follower
from lab.daemons.metrics.sources import (
    MAX_FAULT_PAIRS,
    MAX_SERVICES,
    ClusterView,
    StoreView,
    label,
)
from lab.faults import FAULTS
from lab.faults.records import LoggedFault
from lab.host.clock import WALL, Clock
from lab.topology import JOB_FINAL

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily, Metric

STATUSES = ("PENDING", "RUNNING", *JOB_FINAL)

FAULT_SHOWN_SECONDS = 12.0
"""Time for which a fault counts as active at least, so that two scrapes (every 5 s) see it."""


class LabCollector:
    """Gives prometheus_client the metrics of one lab, from what the followers saw last."""

    def __init__(
        self,
        cluster: Follower[ClusterView],
        store: Follower[StoreView],
        clock: Clock = WALL,
    ) -> None:
        """Metrics of a source that fails for long are left out."""
        self._cluster, self._store, self._clock = cluster, store, clock

    def collect(self) -> Iterator[Metric]:
        yield from self._sources()
        cluster, store = self._cluster.current, self._store.current
        if cluster is not None:
            yield from _cluster_metrics(cluster)
        if store is not None:
            yield from _run_metrics(store)
            nodes = cluster.nodes if cluster is not None else ()
            yield from _fault_metrics(store.faults, nodes, self._clock())

    def _sources(self) -> Iterator[Metric]:
        followers: tuple[Follower[ClusterView] | Follower[StoreView], ...] = (self._cluster, self._store)
        up = gauge("raylab_source_up", "Whether the source answered when it was last asked.", "source")
        for follower in followers:
            up.add_metric([follower.name], float(follower.up))
        yield up


def gauge(name: str, documentation: str, *labels: str) -> GaugeMetricFamily:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(name, documentation, labels=labels)


def _cluster_metrics(view: ClusterView) -> Iterator[Metric]:
    newest: dict[str, Node] = {}
    for node in view.nodes:
        held = newest.get(node.service)
        if held is None or node.alive or not held.alive:
            newest[node.service] = node
    alive = gauge("raylab_node_alive", "Whether the service's node is alive in Ray.", "service")
    info = gauge(
        "raylab_node_info",
        "Always 1. `instance` is the target of the node's own metrics, to join them to the service.",
        *("service", "node_id", "ip", "instance"),
    )
    for service, node in list(newest.items())[-MAX_SERVICES:]:
        alive.add_metric([label(service)], float(node.alive))
        address = view.addresses.get(node.node_id)
        if node.alive and address is not None:
            info.add_metric([label(service), label(node.node_id), address.ip, address.instance], 1)
    counts = Counter(job.status for job in view.jobs)
    jobs = gauge("raylab_jobs", "Submitted jobs that Ray knows, by status.", "status")
    for status in STATUSES:
        jobs.add_metric([status], counts[status])
    yield from (alive, info, jobs)


def _run_metrics(view: StoreView) -> Iterator[Metric]:
    names = ("job", "run")
    epoch = gauge("raylab_run_epoch", "Progress of the run's last report, as a rule its epoch.", *names)
    metric = gauge("raylab_run_metric", "A number of the run's last report.", *names, "metric")
    checkpoints = gauge("raylab_checkpoints", "Checkpoints that Ray Train has registered.", *names)
    attempts = gauge("raylab_attempts", "Attempts of the run so far.", *names)
    for run in view.runs:
        key = [run.job, run.run]
        if run.epoch is not None:
            epoch.add_metric(key, run.epoch)
        for name, value in run.metrics.items():
            metric.add_metric([*key, name], value)
        checkpoints.add_metric(key, run.checkpoints)
        attempts.add_metric(key, run.attempts)
    yield from (epoch, metric, checkpoints, attempts)


def _fault_metrics(faults: tuple[LoggedFault, ...], nodes: tuple[Node, ...], now: float) -> Iterator[Metric]:
    pairs: dict[tuple[str, str], bool] = {}
    for fault in sorted(faults, key=lambda f: f.at):
        pair = (label(fault.kind), label(fault.target))
        pairs[pair] = pairs.pop(pair, False) or _active(fault, nodes, now)
    active = gauge("raylab_fault_active", "Whether the fault lasts (or has just begun).", "kind", "target")
    for pair, is_active in list(pairs.items())[-MAX_FAULT_PAIRS:]:
        active.add_metric(list(pair), float(is_active))
    counts = Counter(dict.fromkeys(FAULTS, 0))
    counts.update(kind for kind in (label(fault.kind) for fault in faults))
    total = gauge("raylab_faults", "Faults that were injected, as recorded in the object store.", "kind")
    for kind, count in counts.most_common(MAX_FAULT_PAIRS):
        total.add_metric([kind], count)
    yield from (active, total)


def _active(fault: LoggedFault, nodes: tuple[Node, ...], now: float) -> bool:
    """Tell whether it lasts. One that labctl did not live to revert is over once its node has joined anew."""
    if now < fault.at + FAULT_SHOWN_SECONDS:
        return True
    joined = any(n.alive and n.service == fault.target and (n.started_at or 0.0) > fault.at for n in nodes)
    return fault.reverted_at is None and not joined
