"""Health that steers: where nothing new is placed, which jobs have to move, and how much capacity is lost.

| state of a device | its node in Ray | jobs of the queues that run there | quotas |
| --- | --- | --- | --- |
| EVICT | closed | reset at once, no retry charged | less the node |
| WARN | closed while no job waits for room and another is open | go on | as they are |
| PASS, UNKNOWN | open | go on | as they are |

A closed node has no CPUs that Ray could give out, see lab.cluster.node_sizes. What is free there is taken
away again and again, because what ends on it would leave room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kueue.capacity import SLACK
from kueue.model import FlavorResource, Setup
from lab.api.health import CPU, EVICT, WARN, DeviceView
from lab.cluster.api import Node
from lab.errors import LabError


@dataclass(frozen=True)
class Look:
    """Ray's jobs: who holds how many GPUs where, and if any waits for room."""

    gpus: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Submission id -> service -> GPUs; 0 where it holds only other things."""
    waits: bool = False


def closed(states: Iterable[DeviceView], nodes: Iterable[str], waits: bool) -> frozenset[str]:
    """Services whose nodes take nothing new, of `nodes`; `waits` is true while a job needs room."""
    states = tuple(states)
    bad = {health.node for health in states if not health.takes_work}
    doubtful = {health.node for health in states if health.state == WARN} - bad
    there = set(nodes)
    if waits or not there - bad - doubtful:
        doubtful = set()
    return frozenset((bad | doubtful) & there)


def sizes(nodes: Iterable[Node], shut: Iterable[str]) -> dict[str, float]:
    """Node id -> CPUs that Ray may give out, of the living nodes that have any."""
    shut = frozenset(shut)
    return {
        node.node_id: 0.0 if node.service in shut else node.resources["CPU"]
        for node in nodes
        if node.alive and node.resources.get("CPU")
    }


def ill(states: Iterable[DeviceView], places: Mapping[str, float]) -> DeviceView | None:
    """The device for which a job has to move that holds so many GPUs on these services."""
    for health in states:
        gpus = places.get(health.node)
        if health.state == EVICT and gpus is not None and (health.device == CPU or gpus > 0):
            return health
    return None


def lost(
    states: Iterable[DeviceView], nodes: Iterable[Node], setup: Setup, gpu: str
) -> dict[FlavorResource, int]:
    """Capacity that quotas count on and that takes no work: of the first flavor that has such a resource.

    `gpu` is what quotas call a GPU. Amounts are as quotas count them.
    """
    bad = {health.node for health in states if not health.takes_work}
    total: dict[FlavorResource, int] = {}
    for node in nodes:
        if not node.alive or node.service not in bad:
            continue
        has = node.resources
        amounts = {
            "cpu": has.get("CPU", 0.0) * 1000,
            gpu: has.get("GPU", 0.0),
            "memory": has.get("memory", 0.0),
        }
        for resource, amount in amounts.items():
            flavor = _flavor(setup, resource)
            if flavor is not None and amount > 0:
                place = FlavorResource(flavor, resource)
                total[place] = total.get(place, 0) + int(amount)
    return total


def amounts(nodes: Iterable[Node], gpu: str) -> tuple[dict[str, int], ...]:
    """What each node has for jobs, as quotas count it.

    A node that is dead or closed comes back, so it counts as it was.
    """
    services: dict[str, tuple[int, ...]] = {}
    units = {"CPU": 1000, "GPU": 1, "memory": 1}
    for node in nodes:
        has = tuple(int(node.resources.get(name, 0.0) * unit) for name, unit in units.items())
        services[node.service] = max(has, services.get(node.service, has))
    return tuple(dict(zip(("cpu", gpu, "memory"), has, strict=True)) for _, has in sorted(services.items()))


def capacity(nodes: Iterable[Mapping[str, int]], gpu: str) -> dict[str, int]:
    """CPUs and GPUs of the lab, of its nodes' `amounts`; nothing while no node is known."""
    nodes = tuple(nodes)
    return {name: sum(node[name] for node in nodes) for name in ("cpu", gpu)} if nodes else {}


def _flavor(setup: Setup, resource: str) -> str | None:
    """The first flavor of a resource: that of the slack queue, else of the first queue that has it."""
    queues = setup.cluster_queues
    for name in (SLACK, *sorted(queues)):
        group = queues[name].group_of(resource) if name in queues else None
        if group is not None and group.flavors:
            return group.flavors[0].name
    return None


class ClosedNodes:
    """Nodes of Ray, and which of them are closed. Its methods may be called from several threads."""

    def __init__(self, resize: Callable[[str, float], None]) -> None:
        """`resize` sets the CPUs of a node by its id. It raises LabError."""
        self._resize = resize
        self._set: dict[str, float] = {}

    def all_open(self, wanted: Mapping[str, float]) -> bool:
        """Tell if all of these are open already, as far as is known."""
        return all(size > 0 and self._set.get(node) == size for node, size in wanted.items())

    def apply(self, wanted: Mapping[str, float]) -> None:
        """Open and close nodes, each one that can be. Raises the LabError of the last that could not."""
        self._set = {node: size for node, size in self._set.items() if node in wanted}
        refused: LabError | None = None
        for node, size in wanted.items():
            if not self.all_open({node: size}):
                try:
                    self._resize(node, size)
                    self._set[node] = size
                except LabError as error:
                    refused = error
                    self._set.pop(node, None)  # it may have been done all the same, only too late
        if refused is not None:
            raise refused
