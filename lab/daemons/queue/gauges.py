"""Metrics of the queues as they are now: quota, usage, who waits. Names and labels are Kueue's."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from kueue.engine import Engine
from kueue.quantity import CPU
from kueue.shares import share
from kueue.tree import QuotaNode

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
"""Gauge -> labels and meaning: those that Kueue's own queries and the lab's dashboards and alerts ask for."""


@dataclass
class Sheet:
    """Values of the gauges, by their labels in the order of GAUGES."""

    values: dict[str, dict[tuple[str, ...], float]] = field(
        default_factory=lambda: {name: {} for name in GAUGES}
    )

    def put(self, name: str, *labels: str, value: float) -> None:
        """Set one."""
        self.values[name][labels] = value

    def add(self, name: str, *labels: str, value: float = 1.0) -> None:
        """Add to one."""
        kept = self.values[name]
        kept[labels] = kept.get(labels, 0.0) + value


def read(engine: Engine) -> Sheet:
    """The values now. Hold the controller's lock."""
    sheet = Sheet()
    for name, node in engine.tree.queues.items():
        _queue(engine, sheet, name, node)
    return sheet


def natural(resource: str, value: int) -> float:
    """An amount in cores, bytes or units."""
    return value / 1000 if resource == CPU else float(value)


def _queue(engine: Engine, sheet: Sheet, name: str, node: QuotaNode) -> None:
    cohort = node.parent.name if node.parent is not None else ""
    for status in ("pending", "active", "terminating"):
        now = "pending" if name in engine.inactive else "active"
        sheet.put("cluster_queue_status", name, status, value=float(status == now))
    weighted = share(node).weighted
    finite = math.nan if math.isinf(weighted) else weighted
    sheet.put("cluster_queue_weighted_share", name, cohort, value=finite)
    for place, quota in node.quotas.items():
        labels, resource = (cohort, name, *place), place.resource
        used = natural(resource, node.usage.get(place, 0))
        sheet.put("cluster_queue_resource_usage", *labels, value=used)
        sheet.put("cluster_queue_nominal_quota", *labels, value=natural(resource, quota.nominal))
    sheet.put("admitted_active_workloads", name, value=len(engine.snapshot.held[name]))
    _waiting(engine, sheet, name)


def _waiting(engine: Engine, sheet: Sheet, name: str) -> None:
    pending = engine.pending[name]
    for status in ("active", "inadmissible"):
        sheet.put("pending_workloads", name, status, value=0)
    for item in pending:
        apart = name in engine.inactive or pending.apart(item)
        sheet.add("pending_workloads", name, "inadmissible" if apart else "active")
        sheet.add("unadmitted_workloads", name, engine.condition(item)[0] or "PendingEvaluation", "")
