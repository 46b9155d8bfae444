"""Quota that a waiting workload is short of, who holds it, and the places of those that wait."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

from kueue.capacity import misfit
from kueue.engine import Engine
from kueue.item import ADMITTED, Item, requests
from kueue.matching import refusal
from kueue.model import PODS, FlavorResource, ResourceGroup
from kueue.tree import QuotaNode


@dataclass(frozen=True)
class Shortage:
    """An amount of one flavor's resource that is missing for a workload, and how much it asks for."""

    place: FlavorResource
    missing: int
    asked: int


@dataclass(frozen=True)
class Holder:
    """A workload that holds what another one is short of.

    `usage` has those amounts only, `since` is the time of its admission, `leaving` the reason if it is being
    stopped.
    """

    workload: str
    local_queue: tuple[str, str]
    cluster_queue: str
    priority: int
    usage: dict[FlavorResource, int]
    since: float | None
    leaving: str = ""


@dataclass(frozen=True)
class Position:
    """Place of a waiting workload, counted from 0, and how many wait there in all."""

    in_cluster_queue: int
    of_cluster_queue: int
    in_local_queue: int
    of_local_queue: int


def shortages(engine: Engine, item: Item) -> tuple[Shortage, ...]:
    """Missing amounts of a workload that waits for quota; none where more quota would not help it.

    Of a pod set with a minimum, that counts. Of several flavors that could serve, each is told of.
    """
    queue = engine.setup.cluster_queues.get(item.cluster_queue)
    if queue is None or item.cluster_queue in engine.inactive:
        return ()
    if any(map(misfit, item.workload.pod_sets, _counts(item), repeat(engine.setup.nodes))):
        return ()
    asked = _asked(item)
    node = engine.tree.queues[item.cluster_queue]
    if queue.group_of(PODS) is not None:
        asked[PODS] = sum(_counts(item))
    short: list[Shortage] = []
    for group in queue.groups:
        wanted = {resource: asked[resource] for resource in group.resources if asked.get(resource)}
        short += _of_group(engine, item, node, group, wanted) if wanted else ()
    return tuple(short)


def _counts(item: Item) -> list[int]:
    """The fewest pods of each pod set with which the workload can start."""
    pod_sets = item.workload.pod_sets
    return [pod_set.count if pod_set.min_count is None else pod_set.min_count for pod_set in pod_sets]


def _asked(item: Item) -> dict[str, int]:
    total: dict[str, int] = {}
    for request in requests(item.workload.pod_sets, _counts(item)):
        for resource, value in request.items():
            total[resource] = total.get(resource, 0) + value
    return total


def _of_group(
    engine: Engine, item: Item, node: QuotaNode, group: ResourceGroup, wanted: dict[str, int]
) -> list[Shortage]:
    """Shortages in the flavors that could serve, or none where one of them has room."""
    shortages: list[Shortage] = []
    for quotas in group.flavors:
        flavor = engine.setup.flavors.get(quotas.name)
        if flavor is None or any(refusal(pod_set, flavor) for pod_set in item.workload.pod_sets):
            continue
        places = {FlavorResource(quotas.name, resource): value for resource, value in wanted.items()}
        if any(value > node.potential(place) for place, value in places.items()):
            continue
        short = [
            Shortage(place, value - free, value)
            for place, value in places.items()
            if (free := node.available(place)) < value
        ]
        if not short:
            return []
        shortages += short
    return shortages


def holders(engine: Engine, item: Item, short: tuple[Shortage, ...]) -> tuple[Holder, ...]:
    """The workloads whose end would give this one something that it is short of, the oldest first."""
    if not short:
        return ()
    node = engine.tree.queues[item.cluster_queue]
    places = {shortage.place for shortage in short}
    root = node.root
    family = {node.name} if root is node else {queue.name for queue in root.all_queues()}
    rows = []
    for name in sorted(family):
        for other in engine.snapshot.held[name].values():
            used = {place: other.usage[place] for place in places if other.usage.get(place)}
            if used and (name == node.name or _helps(engine, node, other, used)):
                rows.append(
                    Holder(
                        other.key, other.queue, name, other.priority, used, other.admitted_at, other.evicted
                    )
                )
    return tuple(sorted(rows, key=lambda holder: (holder.since or 0.0, holder.workload)))


def _helps(engine: Engine, node: QuotaNode, other: Item, used: dict[FlavorResource, int]) -> bool:
    """Tell if the end of a workload of another queue leaves more for this node."""
    before = {place: node.left(place) for place in used}
    with engine.snapshot.without([other]):
        return any(node.left(place) > left for place, left in before.items())


def positions(engine: Engine) -> dict[str, Position]:
    """The place of each workload that waits in a ClusterQueue."""
    places: dict[str, Position] = {}
    for pending in engine.pending.values():
        places.update(_positions(list(pending)))
    return places


def position(engine: Engine, item: Item) -> Position | None:
    """The place of one workload; None where it waits in no ClusterQueue."""
    pending = engine.pending.get(item.cluster_queue)
    if item.state == ADMITTED or pending is None:
        return None
    return next((where for key, where in _positions(list(pending)) if key == item.key), None)


def _positions(waiting: list[Item]) -> Iterator[tuple[str, Position]]:
    whole: dict[tuple[str, str], int] = {}
    for item in waiting:
        whole[item.queue] = whole.get(item.queue, 0) + 1
    before: dict[tuple[str, str], int] = {}
    for place, item in enumerate(waiting):
        inner = before[item.queue] = before.get(item.queue, -1) + 1
        yield item.key, Position(place, len(waiting), inner, whole[item.queue])
