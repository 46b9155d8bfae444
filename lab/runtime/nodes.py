"""A lab by Ray's node list alone, for views that see none of its services' processes."""

from __future__ import annotations

from collections.abc import Sequence

from lab.cluster.api import Node
from lab.services import HEAD, is_worker
from lab.topology import GpuAssignment, GpuPlan, LabSpec, ServiceStatus, State, Vendor


def newest(nodes: Sequence[Node]) -> dict[str, Node]:
    """The newest node of each service, services in order."""
    latest = {node.service: node for node in sorted(nodes, key=lambda node: node.started_at or 0.0)}
    return dict(sorted(latest.items()))


def states(nodes: Sequence[Node], why: str) -> list[ServiceStatus]:
    """The head and every worker that Ray ever knew; without an answer only the head, and `why`."""
    if why:
        return [ServiceStatus(HEAD, State.EXITED, why)]
    return [
        ServiceStatus(name, State.HEALTHY, f"node {node.node_id[:8]} is alive in Ray")
        if node.alive
        else ServiceStatus(name, State.EXITED, f"its node is dead in Ray: {node.reason or 'no reason given'}")
        for name, node in newest(nodes).items()
    ]


def plan(nodes: Sequence[Node], vendor: Vendor) -> GpuPlan:
    """The GPUs that the nodes offer, of this vendor."""
    having = [
        name for name, node in newest(nodes).items() if is_worker(name) and node.resources.get("GPU", 0) > 0
    ]
    if not having:
        return GpuPlan(Vendor.NONE, reason="no node offers a GPU")
    return GpuPlan(vendor, tuple(GpuAssignment(name) for name in having), "what the nodes offer")


def settings(lab: str, nodes: Sequence[Node], vendor: Vendor, workers: int = 0) -> LabSpec:
    """The lab's settings, without the ports and the GPUs' names; `workers` if that is known otherwise."""
    services = newest(nodes)
    cpus = {int(node.resources.get("CPU", 0)) for name, node in services.items() if is_worker(name)}
    return LabSpec(
        lab,
        plan(nodes, vendor),
        workers=workers or max(1, sum(1 for name in services if is_worker(name))),
        cpus_per_worker=max({1, *cpus}),
    )
