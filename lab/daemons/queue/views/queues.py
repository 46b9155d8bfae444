"""ClusterQueues, LocalQueues and cohorts with their quota and usage."""

from __future__ import annotations

import math

from kueue.capacity import overcommitted
from kueue.item import ADMITTED, PENDING
from kueue.model import FlavorResource, Quota, quotas
from kueue.shares import share
from kueue.tree import QuotaNode
from lab.api.quotas import (
    ClusterQueueView,
    CohortView,
    FlavorUse,
    FlavorView,
    LocalQueueView,
    Overcommitted,
    PriorityView,
    QueuesView,
)
from lab.daemons.queue.controller import Controller
from lab.daemons.queue.setup import LESS
from lab.daemons.queue.views.rows import amount


def queues(controller: Controller) -> QueuesView:
    """Every queue and cohort: quota, usage, what is borrowed, and how many wait and run."""
    engine = controller.engine
    setup, tree = engine.setup, engine.tree
    local_queues = setup.local_queues
    waiting: dict[tuple[str, str], int] = {}
    holding: dict[tuple[str, str], int] = {}
    queued: dict[str, int] = {}
    for item in engine.items.values():
        if item.state == PENDING:
            queued[item.cluster_queue] = queued.get(item.cluster_queue, 0) + 1
        counts = waiting if item.state == PENDING else holding if item.state == ADMITTED else None
        if counts is not None:
            counts[item.queue] = counts.get(item.queue, 0) + 1
    return QueuesView(
        cluster_queues=tuple(
            ClusterQueueView(
                name=name,
                cohort=queue.cohort,
                strategy=queue.strategy,
                active=name not in engine.inactive,
                message=engine.inactive.get(name, "Can admit new workloads"),
                stop=queue.stop,
                pending=queued.get(name, 0),
                admitted=len(engine.snapshot.held[name]),
                weight=queue.weight,
                weighted_share=_share(tree.queues[name]),
                flavors=tuple(_flavor(tree.queues[name], *quota) for quota in quotas(queue.groups)),
                local_queues=tuple(
                    sorted(
                        "/".join(key)
                        for key, local_queue in local_queues.items()
                        if local_queue.cluster_queue == name
                    )
                ),
            )
            for name, queue in sorted(setup.cluster_queues.items())
        ),
        local_queues=tuple(
            LocalQueueView(
                namespace=local_queue.namespace,
                name=local_queue.name,
                cluster_queue=local_queue.cluster_queue,
                stop=local_queue.stop,
                pending=waiting.get(key, 0),
                admitted=holding.get(key, 0),
                used=None if engine.history is None else _finite(engine.history.of(key)),
            )
            for key, local_queue in sorted(local_queues.items())
        ),
        cohorts=tuple(
            CohortView(
                name=name,
                parent="" if node.parent is None else node.parent.name,
                weight=node.weight,
                weighted_share=_share(node),
                flavors=tuple(_flavor(node, place, node.quotas.get(place)) for place in sorted(node.subtree)),
            )
            for name, node in sorted(tree.cohorts.items())
        ),
        flavors=tuple(
            FlavorView(flavor.name, dict(flavor.labels)) for _, flavor in sorted(setup.flavors.items())
        ),
        priority_classes=tuple(
            PriorityView(
                priority_class.name,
                priority_class.value,
                priority_class.default or priority_class.name == "default",
            )
            for priority_class in sorted(
                setup.priority_classes,
                key=lambda priority_class: (-priority_class.value, priority_class.name),
            )
        ),
        overcommitted=tuple(
            Overcommitted(
                resource=excess.resource,
                quota=amount(excess.resource, excess.quota),
                capacity=amount(excess.resource, excess.capacity),
                message=str(excess),
                hint=LESS,
            )
            for excess in overcommitted(setup, controller.capacity)
        ),
        away=dict(controller.away),
    )


def _flavor(node: QuotaNode, place: FlavorResource, quota: Quota | None) -> FlavorUse:
    flavor, resource = place
    given = quota or Quota()
    used, subtree = node.usage.get(place, 0), node.subtree.get(place, 0)
    return FlavorUse(
        flavor=flavor,
        resource=resource,
        nominal=amount(resource, given.nominal),
        quota=amount(resource, subtree),
        used=amount(resource, used),
        borrowed=amount(resource, max(0, used - subtree)),
        available=amount(resource, node.available(place)),
        borrowing_limit=None if given.borrowing is None else amount(resource, given.borrowing),
        lending_limit=None if given.lending is None else amount(resource, given.lending),
    )


def _share(node: QuotaNode) -> int | None:
    """Kueue's weightedShare; null is infinite."""
    weighted = share(node).weighted
    return None if math.isinf(weighted) else math.ceil(weighted)


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else round(value, 3)
