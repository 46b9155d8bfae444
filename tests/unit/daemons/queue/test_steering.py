"""Health that steers: which nodes are closed, which jobs move and at what charge, and what quotas lose."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kueue.capacity import SLACK
from kueue.model import FlavorResource
from lab.api.health import EVICT, PASS, UNKNOWN, WARN, DeviceView
from lab.cluster.allocation import read
from lab.cluster.node_sizes import NodeSizes, request
from lab.daemons.queue.rayside import needs_room
from lab.daemons.queue.resets import FREE_RESETS, FREE_SECONDS
from lab.daemons.queue.steering import ClosedNodes, closed, ill, lost, sizes
from lab.daemons.queue.views import why
from lab.errors import ClusterError
from tests.unit.cluster.allocation import rows
from tests.unit.daemons.queue.world import GPU, SMALL, ControllerLab, node, queue, short
from tests.unit.kueue.made import queue as made_queue
from tests.unit.kueue.made import setup

NODES = ("ray-worker-0", "ray-worker-1")
H100 = FlavorResource("h100", GPU)


def device(state: str, service: str = "ray-worker-0", name: str = "gpu-0") -> DeviceView:
    return DeviceView(service, name, "H100", state, "ecc", "2 errors", 0.0, 0.0, ())


@pytest.mark.parametrize(
    ("states", "waits", "shut"),
    [
        ((), False, set()),
        ((device(PASS), device(UNKNOWN, "ray-worker-1")), False, set()),
        ((device(EVICT),), False, {"ray-worker-0"}),
        ((device(EVICT),), True, {"ray-worker-0"}),
        ((device(EVICT, name="cpu"),), True, {"ray-worker-0"}),
        ((device(WARN),), False, {"ray-worker-0"}),
        ((device(WARN),), True, set()),
        ((device(WARN), device(WARN, "ray-worker-1")), False, set()),
        ((device(WARN), device(EVICT, "ray-worker-1")), False, {"ray-worker-1"}),
        ((device(WARN), device(EVICT, name="cpu")), True, {"ray-worker-0"}),
        ((device(EVICT, "ray-worker-9"),), False, set()),
    ],
)
def test_nodes_that_take_nothing_new(states: tuple[DeviceView, ...], waits: bool, shut: set[str]) -> None:
    assert closed(states, NODES, waits) == shut


@pytest.mark.parametrize(
    ("state", "places", "moves"),
    [
        (device(EVICT), {"ray-worker-0": 1.0}, True),
        (device(EVICT), {"ray-worker-0": 0.0}, False),
        (device(EVICT, name="cpu"), {"ray-worker-0": 0.0}, True),
        (device(EVICT), {"ray-worker-1": 1.0}, False),
        (device(WARN), {"ray-worker-0": 1.0}, False),
    ],
)
def test_jobs_that_have_to_move(state: DeviceView, places: dict[str, float], moves: bool) -> None:
    assert (ill((state,), places) is not None) == moves


def test_a_dead_node_is_neither_opened_nor_lost() -> None:
    dead = replace(node("ray-worker-0"), alive=False)
    assert sizes((dead, node("ray-worker-1")), ()) == {"ray-worker-1-id": 8.0}
    given = setup(made_queue("a", 2))
    assert lost((device(EVICT),), (dead,), given, GPU) == {}


def test_what_is_lost_is_of_the_flavor_of_the_slack_queue() -> None:
    given = setup(made_queue("a", {"a100": 2}), made_queue(SLACK, {"h100": 2}))
    assert lost((device(EVICT),), (node("ray-worker-0"),), given, GPU) == {H100: 1}
    assert lost((device(WARN),), (node("ray-worker-0"),), given, GPU) == {}


def test_open_nodes_are_set_once_and_closed_ones_again_and_again() -> None:
    asked: list[tuple[str, float]] = []
    cordon = ClosedNodes(lambda name, size: asked.append((name, size)))
    cordon.apply({"a": 8.0, "b": 0.0})
    cordon.apply({"a": 8.0, "b": 0.0})
    cordon.apply({"a": 8.0, "b": 8.0})
    assert asked == [("a", 8.0), ("b", 0.0), ("b", 0.0), ("b", 8.0)]


def test_a_node_that_cannot_be_resized_keeps_no_other_from_it() -> None:
    asked: list[str] = []

    def resize(name: str, size: float) -> None:
        asked.append(name)
        if name == "dead":
            raise ClusterError("Ray does not resize node dead: NotFound")

    cordon = ClosedNodes(resize)
    with pytest.raises(ClusterError, match="NotFound"):
        cordon.apply({"dead": 8.0, "a": 8.0})
    with pytest.raises(ClusterError):
        cordon.apply({"dead": 8.0, "a": 8.0})
    assert asked == ["dead", "a", "dead"]


def test_the_request_to_resize_is_protobuf() -> None:
    assert request("ab01", 2.0) == b"\n\x02\xab\x01\x12\x0e\n\x03CPU\x11\x00\x00\x00\x00\x00\x00\x00@"


def test_without_an_address_no_node_is_resized() -> None:
    with pytest.raises(ClusterError, match="address of Ray's GCS"):
        NodeSizes("", "").set_cpus("ab", 0.0)


def test_other_quotas_leave_what_is_lost(world: ControllerLab) -> None:
    world.ray.all_nodes = SMALL
    world.apply(*queue("a", 2))
    world.check_says("ray-worker-0", "gpu-0", EVICT)
    world.run(6)
    gone = dict(world.controller.setup.lost)
    assert list(gone.values()) == [1]
    world.apply(*queue("b", 1))
    assert world.controller.setup.lost == gone


def test_a_job_on_a_sick_gpu_is_reset_at_no_charge_and_goes_on(world: ControllerLab) -> None:
    world.apply(*queue("a", 2))
    world.submit("one", work=20)
    world.run(6)
    world.check_says("ray-worker-0", "gpu-0", EVICT)
    world.ray.places[f"{world.job('one').name}-2"] = "ray-worker-1"
    world.run(6)
    first, second = world.job("one").job.attempts
    assert (first.ended, first.reset, first.charged) == ("STOPPED", "AutopilotNoExecute", False)
    assert first.ended_at is not None
    assert second.admitted_at - first.ended_at <= 1
    assert world.ray.cpus == {"ray-worker-0-id": 0.0, "ray-worker-1-id": 8.0}
    world.settle()
    assert short(world.job("one")) == ["STOPPED", "SUCCEEDED"]
    assert world.job("one").job.retries == 0


def test_a_job_that_finds_only_sick_places_is_moved_ever_more_seldom_and_fails_in_the_end(
    world: ControllerLab,
) -> None:
    world.apply(*queue("a", 2))
    world.submit("one", work=1000, retry={"limit": 1, "pause": 20})
    world.run(6)
    world.check_says("ray-worker-0", "cpu", EVICT)
    world.run(300)
    attempts = world.job("one").job.attempts
    assert [attempt.pause for attempt in attempts[:FREE_RESETS]] == [0, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert not any(attempt.charged for attempt in attempts[:FREE_RESETS])
    world.settle(400)
    attempts = world.job("one").job.attempts
    assert [(attempt.charged, attempt.pause) for attempt in attempts[FREE_RESETS:]] == [
        (True, 20),
        (False, 0),
    ]
    item = world.controller.engine.items[world.job("one").key]
    assert "no reset is free after 10 within 1 h; 1 of 1 retries are used up" in item.message


def test_free_resets_of_long_ago_do_not_count(world: ControllerLab) -> None:
    world.apply(*queue("a", 2))
    world.submit("one", work=10_000_000)
    world.run(6)
    for _ in range(FREE_RESETS + 2):
        world.check_says("ray-worker-0", "cpu", EVICT)
        world.run(5)
        world.check_says("ray-worker-0", "cpu", PASS)
        world.clock.now += FREE_SECONDS
        world.run(5)
    attempts = world.job("one").job.attempts
    assert len(attempts) == FREE_RESETS + 3
    assert {attempt.pause for attempt in attempts} == {0}


def test_a_job_elsewhere_is_left_alone(world: ControllerLab) -> None:
    world.apply(*queue("a", 2))
    world.submit("one", work=20)
    world.run(6)
    world.check_says("ray-worker-1", "gpu-0", EVICT)
    world.settle()
    assert short(world.job("one")) == ["SUCCEEDED"]


def test_a_used_up_retry_limit_does_not_keep_a_job_from_moving(world: ControllerLab) -> None:
    world.apply(*queue("a", 2))
    world.submit("one", work=20, retry={"limit": 0})
    world.run(6)
    world.ray.places[f"{world.job('one').name}-2"] = "ray-worker-1"
    world.check_says("ray-worker-0", "cpu", EVICT)
    world.settle()
    assert short(world.job("one")) == ["STOPPED", "SUCCEEDED"]


def test_quotas_lose_a_sick_node_and_get_it_back(world: ControllerLab) -> None:
    world.ray.all_nodes = SMALL
    world.apply(*queue("a", 2))
    world.check_says("ray-worker-1", "gpu-0", EVICT)
    world.run(4)
    world.submit("one", work=9)
    world.submit("two", work=9)
    world.run(6)
    assert {world.job(name).phase for name in ("one", "two")} == {"running", "queued"}
    world.check_says("ray-worker-1", "gpu-0", PASS)
    world.run(4)
    assert {world.job(name).phase for name in ("one", "two")} == {"running"}
    assert world.ray.cpus["ray-worker-1-id"] == 8.0


def test_a_controller_that_starts_opens_what_is_healthy_again(world: ControllerLab) -> None:
    world.check_says("ray-worker-1", "gpu-0", EVICT)
    world.run(4)
    assert world.ray.cpus["ray-worker-1-id"] == 0.0
    world.ill = []
    world.do(world.start)
    world.check_says("ray-worker-1", "gpu-0", PASS)
    world.run(4)
    assert world.ray.cpus["ray-worker-1-id"] == 8.0


def test_a_doubtful_node_is_opened_for_a_job_that_finds_no_room(world: ControllerLab) -> None:
    world.check_says("ray-worker-1", "gpu-0", WARN)
    world.run(4)
    assert world.ray.cpus["ray-worker-1-id"] == 0.0
    world.ray.waits = True
    world.run(4)
    assert world.ray.cpus["ray-worker-1-id"] == 8.0


def test_doubtful_nodes_are_opened_soon_when_the_only_other_one_dies(world: ControllerLab) -> None:
    world.check_says("ray-worker-1", "gpu-0", WARN)
    world.run(4)
    assert world.ray.cpus["ray-worker-1-id"] == 0.0
    world.ray.all_nodes = (replace(node("ray-worker-0"), alive=False), node("ray-worker-1"))
    for _ in range(20):
        world.step(0.05)  # shorter than the time between two closings
    assert world.ray.cpus["ray-worker-1-id"] == 8.0


def test_a_part_of_a_job_that_fits_only_on_closed_nodes_needs_room() -> None:
    api = rows.Dashboard(
        jobs=(rows.job("a", driver="02000000"),),
        actors=(rows.supervisor("a", "ray-head"), rows.actor("TrainController", "02000000", "ray-head")),
        groups=(rows.pending_group("02000000", 2, CPU=1.0),),
    )
    snapshot = read(api)
    assert not needs_room(snapshot, ())
    assert needs_room(snapshot, ("ray-worker-0", "ray-worker-1"))


def test_what_no_node_can_hold_waits_without_quota_until_one_can(world: ControllerLab) -> None:
    world.ray.all_nodes = SMALL
    world.apply(*queue("a", 2))
    for name in ("one", "two"):
        world.submit(name, gpus=2, work=9)
    world.submit("three", work=9)
    world.run(6)
    assert [world.job(name).phase for name in ("one", "two", "three")] == ["queued", "queued", "running"]
    said = why(world.controller, world.job("two").key)
    assert said.waits == "no node has 2 GPUs, the largest has 1: it can never start here"
    assert (said.missing, said.forecast is not None and said.forecast.at) == ((), None)
    world.ray.all_nodes = (*SMALL, node("ray-worker-2", 2.0))
    world.settle()
    assert short(world.job("two")) == ["SUCCEEDED"]
