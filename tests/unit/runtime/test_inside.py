"""A lab seen from its own JupyterLab: what can be said there, and what only the host can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from lab.cluster.api import Node
from lab.errors import (
    ClusterError,
    LabDownError,
    RefusedError,
    ServiceError,
    UnsupportedError,
    WaitTimeoutError,
)
from lab.host.http import Reply
from lab.lab import Lab
from lab.runtime.health import World
from lab.runtime.inside import InsideView
from lab.runtime.ready import wait_ready
from lab.runtime.select import choose
from lab.topology import GpuAssignment, GpuPlan, LabSpec, State, Vendor
from tests.fakes import FakeClock

NONE: Mapping[str, str] = {}


def node(
    service: str, *, alive: bool = True, cpus: float = 8, gpus: float = 1, at: float = 1.0, node_id: str = ""
) -> Node:
    offers = {"CPU": cpus, **({"GPU": gpus} if gpus else {})}
    reason = "" if alive else "it missed heartbeats"
    return Node(node_id or service, service, alive, service == "ray-head", offers, at, None, reason)


NODES = (node("ray-head", cpus=0, gpus=0), node("ray-worker-0"), node("ray-worker-1"))
QUEUES = "http://queue:8266/healthz"
ALONE = ("http://minio:9000/raylab/health", QUEUES)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "ray.token").write_text("secret-token\n")
    (tmp_path / "aws.ini").write_text("[default]\naws_access_key_id = key\naws_secret_access_key = 100%\n")
    return {
        "RAYLAB_NAME": "mine",
        "RAYLAB_GPU": "simulated",
        "RAYLAB_DASHBOARD_URL": "http://127.0.0.1:8299",
        "RAYLAB_GRAFANA_URL": "http://127.0.0.1:3001",
        "RAY_API_SERVER_ADDRESS": "http://ray-head:8265",
        "RAY_AUTH_TOKEN_PATH": str(tmp_path / "ray.token"),
        "AWS_ENDPOINT_URL": "http://minio:9000",
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "aws.ini"),
    }


def inside(
    environment: Mapping[str, str],
    nodes: Sequence[Node] | ClusterError = NODES,
    serving: Sequence[str] = ALONE,
) -> InsideView:
    def list_nodes(url: str, token: str) -> Sequence[Node]:
        assert (url, token) == ("http://ray-head:8265", "secret-token")
        if isinstance(nodes, ClusterError):
            raise nodes
        return nodes

    world = World(http=lambda url, _: Reply(200, {}, b"") if url in serving else None, nodes=list_nodes)
    return InsideView("mine", environment, world=world)


def states(runtime: InsideView) -> dict[str, State]:
    return {service.service: service.state for service in runtime.status().services}


def test_a_whole_lab_is_healthy_and_what_is_left_out_is_not_missed(environment: dict[str, str]) -> None:
    status = inside(environment).status()

    assert status.healthy
    assert [s.service for s in status.services] == [
        "minio", "queue", "ray-head", "ray-worker-0", "ray-worker-1", "jupyter",
    ]  # fmt: skip


@pytest.mark.parametrize(("serving", "state"), [(True, State.HEALTHY), (False, State.EXITED)])
def test_the_controller_of_the_queues_is_asked(
    environment: dict[str, str], serving: bool, state: State
) -> None:
    runtime = inside(environment, serving=[page for page in ALONE if serving or page != QUEUES])
    assert states(runtime)["queue"] is state
    assert runtime.endpoints().queue == "http://queue:8266"


def test_addresses_in_the_status_are_those_of_a_browser_on_the_host(environment: dict[str, str]) -> None:
    serving = (*ALONE, "http://grafana:3000/api/health")
    status = inside(environment, serving=serving).status()

    urls = {service.service: service.url for service in status.services if service.url}
    assert urls == {"ray-head": "http://127.0.0.1:8299", "grafana": "http://127.0.0.1:3001"}


def test_a_lost_node_is_told_with_rays_reason_until_its_service_has_a_new_one(
    environment: dict[str, str],
) -> None:
    lost = node("ray-worker-0", alive=False, at=1.0, node_id="old")
    now = inside(environment, (NODES[0], lost, NODES[2])).status()

    service = now.service("ray-worker-0")
    assert service is not None
    assert (service.state, service.detail) == (State.EXITED, "its node is dead in Ray: it missed heartbeats")
    back = inside(environment, (NODES[0], lost, node("ray-worker-0", at=2.0), NODES[2]))
    assert states(back)["ray-worker-0"] is State.HEALTHY


def test_a_worker_that_a_restarted_head_does_not_know_is_missed(environment: dict[str, str]) -> None:
    runtime = inside({**environment, "RAYLAB_WORKERS": "3"}, NODES[:2])

    status = runtime.status()
    assert not status.healthy
    assert {s.service: s.detail for s in status.services if s.state is State.STARTING} == {
        "ray-worker-1": "not in Ray's node list",
        "ray-worker-2": "not in Ray's node list",
    }
    assert runtime.spec().workers == 3
    two = inside({**environment, "RAYLAB_WORKERS": "2"})
    assert (two.status().healthy, two.spec().workers) == (True, 2)


@pytest.mark.parametrize("said", ["", "two", "-1"])
def test_without_a_number_of_workers_the_node_list_alone_counts(
    environment: dict[str, str], said: str
) -> None:
    runtime = inside({**environment, "RAYLAB_WORKERS": said})
    assert (runtime.status().healthy, runtime.spec().workers) == (True, 2)


def test_a_head_that_does_not_answer_is_a_lab_that_is_down(environment: dict[str, str]) -> None:
    runtime = inside(environment, ClusterError("Ray's dashboard does not answer"))

    status = runtime.status()
    assert not status.up
    assert [(s.service, s.detail) for s in status.services if s.state is State.EXITED] == [
        ("ray-head", "Ray's dashboard does not answer")
    ]
    with pytest.raises(LabDownError, match="does not answer"):
        runtime.spec()
    with pytest.raises(UnsupportedError) as caught:
        Lab(runtime).up(LabSpec("mine"))
    assert caught.value.hint == "on the host: labctl up --lab mine"


def test_a_store_that_does_not_answer_is_told(environment: dict[str, str]) -> None:
    assert states(inside(environment, serving=()))["minio"] is State.EXITED


@pytest.mark.parametrize(
    ("variable", "gpus", "vendor"),
    [
        ("simulated", 1, Vendor.SIMULATED),
        ("nvidia", 1, Vendor.NVIDIA),
        ("amd", 1, Vendor.AMD),
        ("none", 0, Vendor.NONE),
    ],
)
def test_the_settings_are_what_the_nodes_offer(
    environment: dict[str, str], variable: str, gpus: float, vendor: Vendor
) -> None:
    nodes = (NODES[0], *(node(f"ray-worker-{i}", cpus=4, gpus=gpus) for i in range(3)))

    spec = inside({**environment, "RAYLAB_GPU": variable}, nodes).spec()

    assert (spec.name, spec.workers, spec.cpus_per_worker, spec.gpu.vendor) == ("mine", 3, 4, vendor)
    assert len(spec.gpu.assignments) == 3 * gpus


def test_up_of_a_lab_that_is_up_changes_nothing_and_other_settings_are_refused(
    environment: dict[str, str],
) -> None:
    lab = Lab(inside(environment))
    plan = GpuPlan(Vendor.SIMULATED, (GpuAssignment("ray-worker-0"), GpuAssignment("ray-worker-1")))

    assert lab.up(LabSpec("mine", plan)).healthy
    with pytest.raises(RefusedError, match="up with other settings"):
        lab.up(LabSpec("mine", plan, cpus_per_worker=4))


def test_the_keys_are_read_where_the_environment_says(environment: dict[str, str]) -> None:
    endpoints = inside(environment).endpoints()

    assert (endpoints.dashboard, endpoints.gcs) == ("http://ray-head:8265", "ray-head:6379")
    assert (endpoints.s3, endpoints.ray_token) == ("http://minio:9000", "secret-token")
    assert (endpoints.credentials.access_key, endpoints.credentials.secret_key) == ("key", "100%")
    given = {**environment, "AWS_ACCESS_KEY_ID": "other", "AWS_SECRET_ACCESS_KEY": "s"}
    assert inside(given).endpoints().credentials.access_key == "other"


@pytest.mark.parametrize("variable", ["RAY_AUTH_TOKEN_PATH", "AWS_SHARED_CREDENTIALS_FILE"])
def test_a_key_that_cannot_be_read_is_named(environment: dict[str, str], variable: str) -> None:
    with pytest.raises(ServiceError, match="/nowhere"):
        inside({**environment, variable: "/nowhere/file"}).endpoints()


@pytest.mark.parametrize(
    ("act", "command"),
    [
        (lambda lab: lab.down(), "down"),
        (lambda lab: lab.down(volumes=True), "down --volumes"),
        (lambda lab: lab.restart("ray-worker-0"), "restart ray-worker-0"),
        (lambda lab: lab.logs("ray-head"), "logs ray-head"),
        (lambda lab: lab.control.kill("ray-worker-0"), "fault-inject"),
        (lambda lab: lab.runtime.up(LabSpec("mine")), "up"),
    ],
)
def test_what_only_the_host_can_do_is_refused_with_the_command_for_it(
    environment: dict[str, str], act: Callable[[Lab], object], command: str
) -> None:
    with pytest.raises(UnsupportedError, match="from inside lab mine") as caught:
        act(Lab(inside(environment)))
    assert caught.value.hint == f"on the host: labctl {command} --lab mine"


@pytest.mark.parametrize(
    ("nodes", "why", "command"),
    [
        (NODES, "minio is exited (http://minio:9000 does not answer)", "labctl restart minio --lab mine"),
        (ClusterError("no head"), "ray-head is exited (no head)", "labctl up --lab mine"),
    ],
)
def test_a_wait_in_vain_names_the_services_and_the_command_for_the_host(
    environment: dict[str, str], nodes: Sequence[Node] | ClusterError, why: str, command: str
) -> None:
    with pytest.raises(WaitTimeoutError) as caught:
        wait_ready(inside(environment, nodes, serving=(QUEUES,)), 3, clock=FakeClock())
    assert why in caught.value.message
    assert "seen from inside" not in caught.value.message
    assert caught.value.hint == f"on the host: {command}"


def test_another_lab_is_out_of_reach_from_inside(environment: dict[str, str]) -> None:
    with pytest.raises(UnsupportedError, match=r"lab other .*lab mine"):
        InsideView("other", environment)


def test_outside_of_a_container_it_says_what_is_missing() -> None:
    with pytest.raises(UnsupportedError, match="RAY_API_SERVER_ADDRESS"):
        InsideView("raylab", NONE)


def test_it_is_chosen_when_the_environment_asks_for_it(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**environment, "RAYLAB_RUNTIME": "inside"}.items():
        monkeypatch.setenv(name, value)

    assert choose("inside", "mine").kind == "inside"
    assert (Lab().name, Lab().view.kind) == ("mine", "inside")
