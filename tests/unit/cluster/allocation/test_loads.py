"""How busy the nodes are, from the shapes of Ray's reporter (ray 2.60), NVIDIA's and AMD's GPUs included."""

from __future__ import annotations

from typing import Any

import pytest

from lab.cluster.allocation import GpuLoad, read_top
from lab.cluster.allocation.loads import RAYS_OWN, gpu_loads
from lab.errors import ClusterError
from lab.topology import GpuAssignment, GpuPlan, Usage, Vendor
from tests.fakes.host import FakeClock
from tests.unit.cluster.allocation import rows
from tests.unit.cluster.allocation.rows import Dashboard, Row

GIB = 1024**3
SIMULATED = GpuPlan(
    Vendor.SIMULATED, (GpuAssignment("ray-worker-0"), GpuAssignment("ray-worker-1")), "asked for"
)

A100: Row = {
    "index": 0,
    "name": "NVIDIA A100-SXM4-40GB",
    "uuid": "GPU-8f7f1b6a-5f59-4f0e-9b1d-0a1b2c3d4e5f",
    "utilizationGpu": 87,
    "memoryUsed": 2048,
    "memoryTotal": 40960,
    "processesPids": [{"pid": 4321, "gpuMemoryUsage": 1900, "gpuUtilization": 85}],
    "powerMw": 312000,
    "temperatureC": 61,
}
MIG: Row = {
    **A100,
    "index": 3,
    "name": "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
    "uuid": "MIG-1c2d3e4f-0000-1111-2222-333344445555",
    "utilizationGpu": -1,
}
MI250: Row = {
    "index": 1,
    "name": "AMD Instinct MI250X",
    "uuid": 9362816113219012345,
    "utilizationGpu": 42,
    "memoryUsed": 512,
    "memoryTotal": 65520,
    "processesPids": [],
    "powerMw": 90000,
    "temperatureC": None,
}


def report(service: str, *, host: str = "", gpus: list[Row] | None = None, **changes: Any) -> Row:
    """What a node's reporter says; `mem` is total, available, percent, used."""
    return {
        "hostname": host or service,
        "cpus": [4, 2],
        "cpu": 55.0,
        "mem": [8 * GIB, 5 * GIB, 37.5, 3 * GIB],
        "gpus": gpus or [],
        "raylet": {"nodeId": f"{service}-id", "state": "ALIVE"},
        **changes,
    }


def processes(*usages: tuple[float, int]) -> Row:
    """The details of a node with these processes: CPU in percent, memory in bytes."""
    return {"workers": [{"cpuPercent": cpu, "memoryInfo": {"rss": float(rss)}} for cpu, rss in usages]}


def three(*, host: str = "") -> tuple[Row, ...]:
    """Reports of the head and two workers; with `host` they are on one."""
    return tuple(report(name, host=host) for name in ("ray-head", "ray-worker-0", "ray-worker-1"))


def test_nodes_of_containers_have_the_memory_of_their_container() -> None:
    api = Dashboard(reports=three(), details={"ray-worker-0-id": processes((50.0, GIB), (101.5, GIB))})
    view = read_top(api, SIMULATED, clock=FakeClock(5.0))
    head, first, second = view.nodes
    assert (first.cpu_percent, first.cores) == (151.5, 4)
    assert (first.memory_used, first.memory_limit, first.shares_host) == (3 * GIB, 8 * GIB, False)
    assert (head.service, second.cpu_percent, view.at) == ("ray-head", None, 5.0)
    assert "container" in view.notes[0]


def test_nodes_on_one_host_have_the_memory_of_their_processes() -> None:
    api = Dashboard(reports=three(host="vm"), details={"ray-worker-0-id": processes((1.0, GIB), (2.0, GIB))})
    view = read_top(api, SIMULATED)
    assert (view.nodes[1].memory_used, view.nodes[1].memory_limit) == (2 * GIB, 8 * GIB)
    assert all(node.shares_host for node in view.nodes)
    assert "share this machine" in view.notes[0]


def test_what_the_runtime_measured_goes_before_what_ray_knows_of_its_own_processes() -> None:
    api = Dashboard(reports=three(host="vm"), details={"ray-worker-0-id": processes((1.0, GIB))})
    usage = {"ray-worker-0": Usage(180.0, 2 * GIB), "ray-worker-1": Usage(3.0)}
    view = read_top(api, SIMULATED, usage)
    assert [(n.cpu_percent, n.memory_used) for n in view.nodes[1:]] == [(180.0, 2 * GIB), (3.0, None)]
    assert RAYS_OWN in view.notes
    everywhere = read_top(api, SIMULATED, {**usage, "ray-head": Usage(0.0)})
    assert RAYS_OWN not in everywhere.notes


def test_two_jobs_on_one_simulated_gpu_and_one_on_the_other() -> None:
    api = Dashboard(
        jobs=tuple(rows.job(name, order=i) for i, name in enumerate("abc")),
        actors=(
            rows.supervisor("a", "ray-worker-0", GPU=0.5),
            rows.supervisor("b", "ray-worker-0", GPU=0.5),
            rows.supervisor("c", "ray-worker-1", GPU=0.5),
        ),
        reports=three(),
    )
    _, first, second = read_top(api, SIMULATED).nodes
    assert [h.job for h in first.holdings] == ["a", "b"]
    assert first.gpus == (GpuLoad(0, "simulated", True, 1.0),)
    assert second.gpus == (GpuLoad(0, "simulated", True, 0.5),)
    assert (dict(first.held), dict(second.held)) == ({"GPU": 1.0}, {"GPU": 0.5})


def test_a_gpu_of_the_host_is_not_shown_as_that_of_a_simulated_lab() -> None:
    assert gpu_loads(1.0, 0.5, [A100], None, simulated=True) == (GpuLoad(0, "simulated", True, 0.5),)


def test_an_nvidia_gpu_is_shown_with_what_nvml_tells() -> None:
    plan = GpuPlan(
        Vendor.NVIDIA, (GpuAssignment("ray-worker-0", "GPU-8f7f1b6a-5f59-4f0e-9b1d-0a1b2c3d4e5f"),)
    )
    api = Dashboard(reports=(report("ray-head"), report("ray-worker-0", gpus=[A100]), report("ray-worker-1")))
    view = read_top(api, plan)
    (gpu,) = view.nodes[1].gpus
    assert gpu == GpuLoad(0, "NVIDIA A100-SXM4-40GB", False, 0.0, 87.0, 2 * GIB, 40 * GIB)
    assert not any("simulated" in note for note in view.notes)


def test_of_all_the_hosts_gpus_the_pinned_one_is_shown() -> None:
    other = {**A100, "index": 0, "uuid": "GPU-00000000-0000-0000-0000-000000000000"}
    (gpu,) = gpu_loads(
        1.0, 1.0, [other, {**A100, "index": 1}], GpuAssignment("w", A100["uuid"]), simulated=False
    )
    assert (gpu.index, gpu.utilization) == (1, 87.0)


def test_an_amd_gpu_is_found_by_its_index() -> None:
    loads = gpu_loads(1.0, 1.0, [{**MI250, "index": 0}, MI250], GpuAssignment("w", "1"), simulated=False)
    assert [(g.index, g.name, g.utilization) for g in loads] == [(1, "AMD Instinct MI250X", 42.0)]


def test_a_mig_slice_has_no_utilization() -> None:
    (gpu,) = gpu_loads(1.0, 0.0, [MIG], GpuAssignment("w", MIG["uuid"]), simulated=False)
    assert (gpu.utilization, gpu.memory_total) == (None, 40 * GIB)


def test_a_gpu_that_the_reporter_does_not_see_is_shown_without_numbers() -> None:
    loads = gpu_loads(1.0, 0.5, [], GpuAssignment("w", "1", "MI250X"), simulated=False)
    assert loads == (GpuLoad(0, "MI250X", False, 0.5),)


def test_a_node_without_gpus_shows_none_of_its_hosts() -> None:
    assert gpu_loads(0.0, 0.0, [A100], None, simulated=False) == ()


def test_shares_fill_the_gpus_of_a_node_in_turn() -> None:
    loads = gpu_loads(2.0, 1.5, [], None, simulated=True)
    assert [g.share for g in loads] == [1.0, 0.5]


def test_a_node_that_ray_has_not_looked_at_yet_has_no_numbers() -> None:
    view = read_top(Dashboard(), SIMULATED)
    assert [(n.cpu_percent, n.cores, n.memory_used) for n in view.nodes] == [(None, None, None)] * 3


def test_who_waits_comes_oldest_first() -> None:
    api = Dashboard(
        jobs=(rows.job("late", "PENDING", order=2), rows.job("early", "PENDING", order=1)),
        actors=(rows.supervisor("late", GPU=2.0), rows.supervisor("early", GPU=3.0)),
    )
    assert [w.job for w in read_top(api, SIMULATED).waiting] == ["early", "late"]


@pytest.mark.parametrize(
    "reports",
    [
        ({"raylet": {"nodeId": "ray-worker-0-id"}, "mem": "much"},),
        ({"raylet": {"nodeId": "ray-worker-0-id"}, "cpus": {"logical": 2}},),
        ({"raylet": {"nodeId": "ray-worker-0-id"}, "gpus": [3]},),
    ],
)
def test_a_report_of_an_unknown_shape_is_a_cluster_error_that_names_the_node(
    reports: tuple[Row, ...],
) -> None:
    with pytest.raises(ClusterError, match="report on ray-worker-0"):
        read_top(Dashboard(reports=reports), GpuPlan(Vendor.NVIDIA))


def test_a_summary_of_an_unknown_shape_is_a_cluster_error() -> None:
    with pytest.raises(ClusterError, match="summary of the nodes"):
        read_top(Dashboard(reports=(3,)), SIMULATED)  # type: ignore[arg-type]
