"""Load of the nodes, by their runtime and Ray's reporters, and what jobs hold there.

Ray's reporter measures every 5 s. A GPU's numbers come from NVML (NVIDIA) or AMD SMI (AMD), in the node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from lab.cluster.allocation.model import GpuLoad, Holding, NodeLoad, TopView
from lab.cluster.allocation.snapshot import read
from lab.cluster.allocation.usage_by_job import holdings
from lab.cluster.allocation.waiting import waiting
from lab.cluster.api import Node, RayApi, Row, known_shape
from lab.host.clock import WALL, Clock
from lab.topology import GpuAssignment, GpuPlan, Usage, Vendor

MB = 1024**2
"""Ray gives a GPU's memory in units of this."""

SHARED_HOST = (
    "the nodes share this machine: CPU and memory of a node are the sum over its processes, "
    "the limit is the machine's"
)
OWN_HOST = "CPU and memory are the container's"
RAYS_OWN = "CPU is that of Ray's processes alone: an entrypoint that does not use Ray is not counted"
SIMULATED = "GPUs are simulated: what is shown is the share that jobs were given"


def read_top(
    api: RayApi,
    plan: GpuPlan,
    usage: Mapping[str, Usage] | None = None,
    health: Callable[[], Mapping[str, tuple[str, str]]] = dict,
    clock: Clock = WALL,
) -> TopView:
    """The nodes and who waits, now. Raises ClusterError. `health` gives TopView.health.

    `plan` says which GPUs are simulated, `usage` what all processes of a service use; where it says nothing,
    what Ray knows of its own processes counts.

    One request for each living node, and seven for the rest.
    """
    snapshot = read(api)
    reports = _reports(api)
    held = holdings(snapshot)
    hosts = Counter(str(reports.get(n.node_id, {}).get("hostname") or n.node_id) for n in snapshot.nodes)
    shared = any(count > 1 for count in hosts.values())
    nodes = tuple(
        load(
            node,
            reports.get(node.node_id, {}),
            _processes(api, node),
            tuple(h for h in held if h.service == node.service),
            plan,
            (usage or {}).get(node.service),
            shares_host=shared,
        )
        for node in sorted(snapshot.nodes, key=lambda n: (not n.head, n.service))
    )
    order = [job.submission_id for job in snapshot.jobs]
    waits = sorted(waiting(snapshot).values(), key=lambda w: order.index(w.job))
    conditions = {
        SHARED_HOST if shared else OWN_HOST: True,
        RAYS_OWN: any(node.service not in (usage or {}) for node in snapshot.nodes),
        SIMULATED: plan.vendor is Vendor.SIMULATED,
    }
    notes = tuple(note for note, true in conditions.items() if true)
    return TopView(clock(), nodes, tuple(waits), notes, health())


def load(
    node: Node,
    report: Row,
    processes: Sequence[Row],
    held: tuple[Holding, ...],
    plan: GpuPlan,
    usage: Usage | None,
    *,
    shares_host: bool,
) -> NodeLoad:
    """One node from its reporter's `report` and `processes`, and its `usage` if known.

    Raises ClusterError for an unknown shape.
    """
    total: Counter[str] = Counter()
    for holding in held:
        total.update(holding.resources)
    sums = {resource: round(amount, 4) for resource, amount in total.items()}
    with known_shape(f"Ray's report on {node.service}"):
        memory = report.get("mem") or (None, None, None, None)
        used, limit = memory[3], memory[0]
        if shares_host:
            used = sum(int((p.get("memoryInfo") or {}).get("rss") or 0) for p in processes) or None
            used = usage.memory_bytes if usage and usage.memory_bytes is not None else used
        cpu = round(sum(float(p.get("cpuPercent") or 0) for p in processes), 1) if processes else None
        return NodeLoad(
            service=node.service,
            cpu_percent=usage.cpu_percent if usage else cpu,
            cores=int(report["cpus"][0]) if report.get("cpus") else None,
            memory_used=None if used is None else int(used),
            memory_limit=None if limit is None else int(limit),
            shares_host=shares_host,
            gpus=gpu_loads(
                node.resources.get("GPU", 0.0),
                sums.get("GPU", 0.0),
                report.get("gpus") or (),
                plan.gpu_of(node.service),
                simulated=plan.vendor is Vendor.SIMULATED,
            ),
            offers=node.resources,
            held=sums,
            holdings=held,
        )


def gpu_loads(
    offered: float,
    share: float,
    reported: Sequence[Row],
    assigned: GpuAssignment | None,
    *,
    simulated: bool,
) -> tuple[GpuLoad, ...]:
    """The GPUs of a node that offers `offered` of them, of which `share` is given away, first come first.

    A reporter may see more GPUs than the node is pinned to: of those, the assigned one counts.
    """
    shown = [] if simulated else [row for row in reported if assigned is None or _is(row, assigned)]
    if not simulated and not shown:
        shown = list(reported)[: int(offered)]
    loads = []
    for place in range(max(int(offered), len(shown) if offered else 0)):
        given = round(min(1.0, max(0.0, share - place)), 4)
        if place >= len(shown):
            name = "simulated" if simulated else assigned.name if assigned else ""
            loads.append(GpuLoad(place, name, simulated, given))
            continue
        row = shown[place]
        busy = row.get("utilizationGpu")
        loads.append(
            GpuLoad(
                index=int(row.get("index", place)),
                name=str(row.get("name") or ""),
                simulated=False,
                share=given,
                utilization=None if busy is None or busy < 0 else float(busy),
                memory_used=_bytes(row.get("memoryUsed")),
                memory_total=_bytes(row.get("memoryTotal")),
            )
        )
    return tuple(loads)


def _is(row: Row, assigned: GpuAssignment) -> bool:
    """Tell whether a reported GPU is the assigned one: by UUID (NVIDIA) or by index (AMD)."""
    uuid, wanted = str(row.get("uuid") or "").lower(), assigned.gpu.lower()
    return bool(wanted) and (uuid.endswith(wanted) or str(row.get("index")) == wanted)


def _bytes(megabytes: float | None) -> int | None:
    return None if megabytes is None else int(megabytes) * MB


def _reports(api: RayApi) -> dict[str, Row]:
    answer = api.get("/nodes?view=summary")
    with known_shape("Ray's summary of the nodes"):
        return {str((row.get("raylet") or {}).get("nodeId")): row for row in answer["data"]["summary"]}


def _processes(api: RayApi, node: Node) -> Sequence[Row]:
    """The Ray processes of a node; none where Ray has not measured it yet."""
    answer = api.get(f"/nodes/{node.node_id}")
    with known_shape(f"Ray's list of processes of {node.service}"):
        return list(answer["data"]["detail"].get("workers") or ())
