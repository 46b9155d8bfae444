"""Metrics of the queues as they are now: quota, usage, who waits. Names and labels are Kueue's."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.queue.engine import Engine
from lab.queue.item import FINISHED, Item
from lab.queue.model import NONE
from lab.queue.quantity import CPU
from lab.queue.shares import share
from lab.queue.tree import Node

PLACE = ("flavor", "resource")
QUEUE, DOOR = ("cluster_queue",), ("name", "namespace")
QUOTA = ("cohort", "cluster_queue", *PLACE)

GAUGES: dict[str, tuple[tuple[str, ...], str]] = {
    "pending_workloads": ((*QUEUE, "status"), "Workloads that wait: active, or inadmissible for now."),
    "reserving_active_workloads": (QUEUE, "Workloads that hold quota."),
    "admitted_active_workloads": (QUEUE, "Workloads that are admitted and not finished."),
    "finished_workloads": (QUEUE, "Workloads that are finished and still listed."),
    "unadmitted_workloads": ((*QUEUE, "reason", "underlying_cause"), "Workloads that wait, by the reason."),
    "cluster_queue_status": ((*QUEUE, "status"), "1 for the status that the ClusterQueue has."),
    "cluster_queue_info": ((*QUEUE, "parent_cohort", "root_cohort"), "Always 1: the cohorts above."),
    "cluster_queue_resource_reservation": (QUOTA, "Quota that is reserved."),
    "cluster_queue_resource_usage": (QUOTA, "Quota that admitted workloads use."),
    "cluster_queue_resource_pending": ((*QUEUE, "resource"), "Amount that waiting workloads ask for."),
    "cluster_queue_nominal_quota": (QUOTA, "Quota of the queue's own."),
    "cluster_queue_borrowing_limit": (QUOTA, "The most that it may borrow; +Inf without a limit."),
    "cluster_queue_lending_limit": (QUOTA, "The most that it lends; +Inf without a limit."),
    "cluster_queue_weighted_share": (
        (*QUEUE, "cohort"),
        "Borrowed part of what the cohort lends, in thousandths, over the weight; NaN for weight 0.",
    ),
    "cohort_weighted_share": (("cohort",), "The same of a cohort within its parent."),
    "cohort_info": (("cohort", "parent_cohort", "root_cohort"), "Always 1: the cohorts above."),
    "cohort_subtree_quota": (("cohort", *PLACE), "Quota of the cohort and all below."),
    "cohort_subtree_resource_reservations": (("cohort", *PLACE), "Quota that is reserved there."),
    "cohort_subtree_admitted_active_workloads": (("cohort",), "Workloads that are admitted there."),
    "local_queue_pending_workloads": ((*DOOR, "status"), "As pending_workloads."),
    "local_queue_reserving_active_workloads": (DOOR, "As reserving_active_workloads."),
    "local_queue_admitted_active_workloads": (DOOR, "As admitted_active_workloads."),
    "local_queue_finished_workloads": (DOOR, "As finished_workloads."),
    "local_queue_unadmitted_workloads": (
        (*DOOR, "cluster_queue", "reason", "underlying_cause"),
        "As unadmitted_workloads.",
    ),
    "local_queue_status": ((*DOOR, "active"), "1 for the status that the LocalQueue has."),
    "local_queue_resource_reservation": ((*DOOR, *PLACE), "As cluster_queue_resource_reservation."),
    "local_queue_resource_usage": ((*DOOR, *PLACE), "As cluster_queue_resource_usage."),
    "local_queue_admission_fair_sharing_usage": (
        (*DOOR, "cluster_queue"),
        "Usage over time, where the order goes by it.",
    ),
}
"""Gauge -> labels and meaning."""


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
    for name, node in engine.tree.cohorts.items():
        _cohort(engine, sheet, name, node)
    _doors(engine, sheet)
    for item in engine.items.values():
        if item.state == FINISHED:
            door = engine.setup.local_queues.get(item.queue)  # one that was read back is in no queue
            queue = item.cluster_queue or (door.cluster_queue if door is not None else "")
            sheet.add("finished_workloads", queue)
            sheet.add("local_queue_finished_workloads", *_door(item))
    return sheet


def natural(resource: str, value: int) -> float:
    """An amount in cores, bytes or units."""
    return value / 1000 if resource == CPU else float(value)


def _queue(engine: Engine, sheet: Sheet, name: str, node: Node) -> None:
    cohort = node.parent.name if node.parent is not None else ""
    sheet.put("cluster_queue_info", name, cohort, node.root.name if cohort else "", value=1)
    for status in ("pending", "active", "terminating"):
        now = "pending" if name in engine.inactive else "active"
        sheet.put("cluster_queue_status", name, status, value=float(status == now))
    weighted = share(node).weighted
    found = math.nan if math.isinf(weighted) else weighted
    sheet.put("cluster_queue_weighted_share", name, cohort, value=found)
    for place, quota in node.quotas.items():
        labels, resource = (cohort, name, *place), place.resource
        used = natural(resource, node.usage.get(place, 0))
        sheet.put("cluster_queue_resource_reservation", *labels, value=used)
        sheet.put("cluster_queue_resource_usage", *labels, value=used)
        sheet.put("cluster_queue_nominal_quota", *labels, value=natural(resource, quota.nominal))
        for limit, given in (("borrowing", quota.borrowing), ("lending", quota.lending)):
            most = math.inf if given is None else natural(resource, given)
            sheet.put(f"cluster_queue_{limit}_limit", *labels, value=most)
        sheet.put("cluster_queue_resource_pending", name, resource, value=0)
    _held(engine, sheet, name)
    _waiting(engine, sheet, name)


def _held(engine: Engine, sheet: Sheet, name: str) -> None:
    held = engine.snapshot.held[name]
    for state in ("reserving", "admitted"):
        sheet.put(f"{state}_active_workloads", name, value=len(held))


def _waiting(engine: Engine, sheet: Sheet, name: str) -> None:
    pending = engine.pending[name]
    for status in ("active", "inadmissible"):
        sheet.put("pending_workloads", name, status, value=0)
    for item in pending:
        apart = name in engine.inactive or pending.apart(item)
        status = "inadmissible" if apart else "active"
        sheet.add("pending_workloads", name, status)
        sheet.add("local_queue_pending_workloads", *_door(item), status)
        reason = engine.told(item)[0] or "PendingEvaluation"
        sheet.add("unadmitted_workloads", name, reason, "")
        sheet.add("local_queue_unadmitted_workloads", *_door(item), name, reason, "")
        for resource, amount in _asked(item).items():
            sheet.add("cluster_queue_resource_pending", name, resource, value=natural(resource, amount))


def _cohort(engine: Engine, sheet: Sheet, name: str, node: Node) -> None:
    parent = node.parent.name if node.parent is not None else ""
    sheet.put("cohort_info", name, parent, node.root.name, value=1)
    weighted = share(node).weighted
    sheet.put("cohort_weighted_share", name, value=math.nan if math.isinf(weighted) else weighted)
    below = list(node.all_queues())
    held = sum(len(engine.snapshot.held[each.name]) for each in below)
    sheet.put("cohort_subtree_admitted_active_workloads", name, value=held)
    for place, total in node.subtree.items():
        used = sum(each.usage.get(place, 0) for each in below)
        sheet.put("cohort_subtree_quota", name, *place, value=natural(place.resource, total))
        sheet.put("cohort_subtree_resource_reservations", name, *place, value=natural(place.resource, used))


def _doors(engine: Engine, sheet: Sheet) -> None:
    """LocalQueues: what is not told by those who wait."""
    for (namespace, name), door in engine.setup.local_queues.items():
        labels, queue = (name, namespace), door.cluster_queue
        open_ = door.stop == NONE and queue in engine.pending and queue not in engine.inactive
        for active in ("True", "False", "Unknown"):
            sheet.put("local_queue_status", *labels, active, value=float(active == str(open_)))
        for status in ("active", "inadmissible"):
            sheet.add("local_queue_pending_workloads", *labels, status, value=0)
        held = [each for each in engine.snapshot.held.get(queue, {}).values() if _door(each) == labels]
        for state in ("reserving", "admitted"):
            sheet.put(f"local_queue_{state}_active_workloads", *labels, value=len(held))
        node = engine.tree.queues.get(queue)
        for place in node.quotas if node is not None else ():
            used = natural(place.resource, sum(each.usage.get(place, 0) for each in held))
            for what in ("reservation", "usage"):
                sheet.put(f"local_queue_resource_{what}", *labels, *place, value=used)
        if engine.history is not None:
            used = engine.history.of((namespace, name))
            sheet.put("local_queue_admission_fair_sharing_usage", *labels, queue, value=used)


def _door(item: Item) -> tuple[str, str]:
    """Name and namespace of the LocalQueue of a workload."""
    return item.queue[1], item.queue[0]


def _asked(item: Item) -> Mapping[str, int]:
    """Resource -> amount that all pods of a workload together ask for."""
    total: Counter[str] = Counter()
    for each in item.workload.pod_sets:
        for resource, value in each.requests.items():
            total[resource] += max(0, value) * each.count
    return total
