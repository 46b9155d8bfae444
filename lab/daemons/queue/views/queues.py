"""ClusterQueues, LocalQueues and cohorts with their quota and usage."""

from __future__ import annotations

import math

from kueue.capacity import overcommitted
from kueue.item import ADMITTED, PENDING
from kueue.model import FlavorResource, Quota, quotas
from kueue.shares import share
from kueue.tree import Node
from lab.daemons.queue.reader import Document, Reader
from lab.daemons.queue.setup import LESS
from lab.daemons.queue.views.rows import amount


def queues(reader: Reader) -> Document:
    """Every queue and cohort: quota, usage, what is borrowed, and how many wait and run."""
    engine = reader.engine
    setup, tree = engine.setup, engine.tree
    waiting: dict[tuple[str, str], int] = {}
    holding: dict[tuple[str, str], int] = {}
    queued: dict[str, int] = {}
    for item in engine.items.values():
        if item.state == PENDING:
            queued[item.cluster_queue] = queued.get(item.cluster_queue, 0) + 1
        counts = waiting if item.state == PENDING else holding if item.state == ADMITTED else None
        if counts is not None:
            counts[item.queue] = counts.get(item.queue, 0) + 1
    return {
        "cluster_queues": [
            {
                "name": name,
                "cohort": queue.cohort,
                "strategy": queue.strategy,
                "active": name not in engine.inactive,
                "message": engine.inactive.get(name, "Can admit new workloads"),
                "stop": queue.stop,
                "pending": queued.get(name, 0),
                "admitted": len(engine.snapshot.held[name]),
                "weight": queue.weight,
                "weighted_share": _share(tree.queues[name]),
                "flavors": [_flavor(tree.queues[name], *each) for each in quotas(queue.groups)],
                "local_queues": sorted(
                    "/".join(door) for door, each in setup.local_queues.items() if each.cluster_queue == name
                ),
            }
            for name, queue in sorted(setup.cluster_queues.items())
        ],
        "local_queues": [
            {
                "namespace": each.namespace,
                "name": each.name,
                "cluster_queue": each.cluster_queue,
                "stop": each.stop,
                "pending": waiting.get(door, 0),
                "admitted": holding.get(door, 0),
                "used": None if engine.history is None else _finite(engine.history.of(door)),
            }
            for door, each in sorted(setup.local_queues.items())
        ],
        "cohorts": [
            {
                "name": name,
                "parent": "" if node.parent is None else node.parent.name,
                "weight": node.weight,
                "weighted_share": _share(node),
                "flavors": [_flavor(node, place, node.quotas.get(place)) for place in sorted(node.subtree)],
            }
            for name, node in sorted(tree.cohorts.items())
        ],
        "flavors": [
            {"name": each.name, "node_labels": dict(each.labels)} for _, each in sorted(setup.flavors.items())
        ],
        "priority_classes": [
            {"name": each.name, "value": each.value, "default": each.default or each.name == "default"}
            for each in sorted(setup.priority_classes, key=lambda each: (-each.value, each.name))
        ],
        "overcommitted": [
            {
                "resource": excess.resource,
                "quota": amount(excess.resource, excess.quota),
                "capacity": amount(excess.resource, excess.capacity),
                "message": str(excess),
                "hint": LESS,
            }
            for excess in overcommitted(setup, reader.capacity)
        ],
        "away": dict(reader.away),
    }


def _flavor(node: Node, place: FlavorResource, quota: Quota | None) -> Document:
    """Quota and usage of one flavor's resource; limits that are not set are null."""
    flavor, resource = place
    given = quota or Quota()
    used, subtree = node.usage.get(place, 0), node.subtree.get(place, 0)
    limits = {"borrowing_limit": given.borrowing, "lending_limit": given.lending}
    return {
        "flavor": flavor,
        "resource": resource,
        "nominal": amount(resource, given.nominal),
        "quota": amount(resource, subtree),
        "used": amount(resource, used),
        "borrowed": amount(resource, max(0, used - subtree)),
        "available": amount(resource, node.available(place)),
        **{name: None if value is None else amount(resource, value) for name, value in limits.items()},
    }


def _share(node: Node) -> int | None:
    """Kueue's weightedShare; null is infinite."""
    weighted = share(node).weighted
    return None if math.isinf(weighted) else math.ceil(weighted)


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else round(value, 3)
