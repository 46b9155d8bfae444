"""Metrics of the queues as they are now: quota, usage, who waits. Names and labels are Kueue's."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kueue.engine import Engine
from kueue.shares import share
from kueue.tree import QuotaNode
from lab.daemons.queue.views.rows import amount

if TYPE_CHECKING:
    from prometheus_client.core import Metric

PREFIX = "kueue_"
ROLE, STANDALONE = "replica_role", "standalone"
"""Label that every metric of Kueue has, and its value where there is one controller."""

QUEUE = ("cluster_queue",)
QUOTA = ("cohort", *QUEUE, "flavor", "resource")

GAUGES: dict[str, tuple[tuple[str, ...], str]] = {
    "pending_workloads": ((*QUEUE, "status"), "Workloads that wait: active, or inadmissible for now."),
    "admitted_active_workloads": (QUEUE, "Workloads that are admitted and not finished."),
    "unadmitted_workloads": ((*QUEUE, "reason", "underlying_cause"), "Workloads that wait, by the reason."),
    "cluster_queue_status": ((*QUEUE, "status"), "1 for the status that the ClusterQueue has."),
    "cluster_queue_resource_usage": (QUOTA, "Quota that admitted workloads use."),
    "cluster_queue_nominal_quota": (QUOTA, "Quota of the queue's own."),
    "cluster_queue_weighted_share": (
        (*QUEUE, "cohort"),
        "Borrowed part of what the cohort lends, in thousandths, over the weight; NaN for weight 0.",
    ),
}
"""Gauge -> labels and meaning: those that the lab's dashboards and alerts ask for."""

Sample = tuple[str, tuple[str, ...], float]
"""A gauge, the values of its labels, and its own."""


def read(engine: Engine) -> Iterable[Metric]:
    """The gauges now. Hold the controller's lock."""
    from prometheus_client.core import GaugeMetricFamily

    families = {
        name: GaugeMetricFamily(PREFIX + name, meaning, labels=(*labels, ROLE))
        for name, (labels, meaning) in GAUGES.items()
    }
    for queue, node in engine.tree.queues.items():
        for name, labels, value in (*_queue(engine, queue, node), *_waiting(engine, queue)):
            families[name].add_metric((*labels, STANDALONE), value)
    return families.values()


def _queue(engine: Engine, name: str, node: QuotaNode) -> Iterator[Sample]:
    cohort = node.parent.name if node.parent is not None else ""
    for status in ("pending", "active", "terminating"):
        now = "pending" if name in engine.inactive else "active"
        yield "cluster_queue_status", (name, status), float(status == now)
    weighted = share(node).weighted
    yield "cluster_queue_weighted_share", (name, cohort), math.nan if math.isinf(weighted) else weighted
    for place, quota in node.quotas.items():
        labels, resource = (cohort, name, *place), place.resource
        yield "cluster_queue_resource_usage", labels, amount(resource, node.usage.get(place, 0))
        yield "cluster_queue_nominal_quota", labels, amount(resource, quota.nominal)
    yield "admitted_active_workloads", (name,), len(engine.snapshot.held[name])


def _waiting(engine: Engine, name: str) -> Iterator[Sample]:
    pending = engine.pending[name]
    statuses, reasons = Counter(active=0, inadmissible=0), Counter[str]()
    for item in pending:
        apart = name in engine.inactive or pending.apart(item)
        statuses["inadmissible" if apart else "active"] += 1
        reasons[engine.condition(item)[0] or "PendingEvaluation"] += 1
    for status, count in statuses.items():
        yield "pending_workloads", (name, status), count
    for reason, count in reasons.items():
        yield "unadmitted_workloads", (name, reason, ""), count
