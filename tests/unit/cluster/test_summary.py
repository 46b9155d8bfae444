"""A lab at a glance."""

from __future__ import annotations

from dataclasses import replace

from lab.cluster.api import Node
from lab.cluster.summary import details
from lab.topology import GpuAssignment, GpuPlan, LabStatus, ServiceStatus, State, Vendor

GIB = 1024.0**3
PLAN = GpuPlan(Vendor.SIMULATED, (GpuAssignment("ray-worker-0"), GpuAssignment("ray-worker-1")))


def node(service: str, *, alive: bool = True, cpus: float = 8, gpus: float = 1) -> Node:
    offers = {"CPU": cpus, "GPU": gpus, "memory": 2 * GIB, "object_store_memory": 1.0}
    return Node(service, service, alive, service == "ray-head", offers, 1.0, None, "")


NODES = (node("ray-worker-0"), node("ray-head", cpus=0, gpus=0), node("ray-worker-1"))
STATUS = LabStatus(
    "raylab",
    "local",
    True,
    (
        ServiceStatus("minio", State.HEALTHY, url="http://127.0.0.1:9000"),
        ServiceStatus("ray-head", State.HEALTHY, url="http://127.0.0.1:8265"),
        ServiceStatus("ray-worker-0", State.HEALTHY),
        ServiceStatus("jupyter", State.HEALTHY, url="http://127.0.0.1:8888"),
    ),
    PLAN,
)


def test_addresses_nodes_and_what_they_offer_together() -> None:
    summary = details(STATUS, NODES)

    assert (summary.dashboard, summary.s3) == ("http://127.0.0.1:8265", "http://127.0.0.1:9000")
    assert (summary.jupyter, summary.prometheus, summary.grafana) == ("http://127.0.0.1:8888", "", "")
    assert [n.service for n in summary.nodes] == ["ray-head", "ray-worker-0", "ray-worker-1"]
    assert summary.resources == {"CPU": 16, "GPU": 2, "memory": 6 * GIB}
    assert summary.healthy


def test_a_dead_node_offers_nothing() -> None:
    summary = details(STATUS, (*NODES, node("ray-worker-2", alive=False)))

    assert summary.resources["CPU"] == 16
    assert "ray-worker-2" not in [n.service for n in summary.nodes]


def test_as_text_it_is_a_page_to_read() -> None:
    summary = details(STATUS, NODES)

    assert str(summary) == repr(summary)
    assert str(summary).splitlines() == [
        "lab raylab (runtime local): healthy",
        "  dashboard     http://127.0.0.1:8265",
        "  jupyter       http://127.0.0.1:8888",
        "  s3            http://127.0.0.1:9000  bucket s3://ray",
        "  ray-head        0 CPU    0 GPU    2.0 GiB",
        "  ray-worker-0    8 CPU    1 GPU    2.0 GiB",
        "  ray-worker-1    8 CPU    1 GPU    2.0 GiB",
        "  together       16 CPU    2 GPU    6.0 GiB (simulated)",
    ]


def test_what_is_not_healthy_stands_in_the_first_line() -> None:
    lost = ServiceStatus("ray-worker-1", State.EXITED, "its process has ended")
    summary = details(replace(STATUS, services=(*STATUS.services, lost)), NODES)

    assert not summary.healthy
    assert str(summary).splitlines()[0] == (
        "lab raylab (runtime local): ray-worker-1 is exited (its process has ended)"
    )
