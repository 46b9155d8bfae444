"""What faults do to containers: crash, cut off, slow down, take a key's rights."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import EngineError, LabDownError, NotFoundError, StoreError, UnsupportedError
from lab.runtime.base import Feature
from lab.runtime.compose.runtime import ComposeRuntime
from lab.services import HEAD, STORE
from lab.store.admin import MinioAdministration
from lab.topology import State
from tests.unit.runtime.compose.fake_docker import FakeDocker, spec

WORKER, OTHER = "ray-worker-0", "ray-worker-1"
IMAGE = "raylab/ray:1-cpu"


def state(runtime: ComposeRuntime, service: str) -> State:
    status = runtime.status().service(service)
    assert status is not None
    return status.state


# Crash


def test_a_crashed_node_is_killed_from_inside_and_started_by_the_engine(
    up: ComposeRuntime, docker: FakeDocker
) -> None:
    up.crash(WORKER)
    assert docker.journal == [("update", WORKER, "--restart=on-failure"), ("execute", WORKER)]
    assert state(up, WORKER) is State.RUNNING
    docker.clock.sleep(5)
    assert state(up, WORKER) is State.HEALTHY


def test_a_node_that_came_back_stays_down_when_it_is_killed_later(
    up: ComposeRuntime, docker: FakeDocker
) -> None:
    up.crash(WORKER)
    docker.clock.sleep(5)
    docker.journal.clear()
    up.start(WORKER)
    assert docker.journal == [("update", WORKER, "--restart=no")]
    up.start(WORKER)
    assert len(docker.journal) == 1


def test_a_crashed_node_that_ray_gave_up_is_started_by_whoever_waits_for_it(
    up: ComposeRuntime, docker: FakeDocker
) -> None:
    up.crash(WORKER)
    docker.gives_up[WORKER] = 1
    up.start(WORKER)
    assert up.status().healthy
    assert docker.find(WORKER).restart_policy == "no"


def test_the_policy_that_the_store_has_anyway_is_left_to_it(up: ComposeRuntime, docker: FakeDocker) -> None:
    docker.change(docker.find(STORE).id, restart_policy="on-failure")
    up.crash(STORE)
    docker.clock.sleep(5)
    up.start(STORE)
    assert docker.done("update") == []


def test_what_has_no_python_in_its_image_cannot_be_crashed(up: ComposeRuntime, docker: FakeDocker) -> None:
    docker.pythonless.add(STORE)
    with pytest.raises(UnsupportedError, match=r"minio .*no Python"):
        up.crash(STORE)


def test_a_paused_node_cannot_be_crashed(up: ComposeRuntime, docker: FakeDocker) -> None:
    up.pause(WORKER)
    docker.journal.clear()
    with pytest.raises(EngineError, match="ray-worker-0 is paused"):
        up.crash(WORKER)
    assert docker.journal == []


# Cut off


def test_a_cut_takes_the_container_off_the_network_and_its_revert_gives_the_name_back(
    up: ComposeRuntime, docker: FakeDocker
) -> None:
    up.disconnect(WORKER)
    up.disconnect(WORKER)
    assert state(up, WORKER) is State.RUNNING
    worker = up.status().service(WORKER)
    assert worker is not None
    assert worker.detail == "its container is cut off from the lab's network"
    up.reconnect(WORKER)
    up.reconnect(WORKER)
    assert docker.journal == [
        ("network disconnect", WORKER),
        ("network connect", WORKER, "--alias=ray-worker-0"),
    ]
    assert state(up, WORKER) is State.HEALTHY


def test_what_ended_while_it_was_cut_off_can_be_connected(up: ComposeRuntime, docker: FakeDocker) -> None:
    up.disconnect(WORKER)
    up.kill(WORKER)
    up.reconnect(WORKER)
    assert not docker.find(WORKER).cut


@pytest.mark.parametrize("repair", ["start", "up"])
def test_a_cut_that_nobody_healed_is_healed_by_a_start(
    up: ComposeRuntime, docker: FakeDocker, repair: str
) -> None:
    for service in (WORKER, STORE):
        up.disconnect(service)
    if repair == "up":
        up.up(spec())
    else:
        up.start(STORE)
        up.start(WORKER)
    assert not docker.find(WORKER).cut
    assert up.status().healthy


# Slow down


def test_a_network_is_slowed_down_from_a_container_beside_it(up: ComposeRuntime, docker: FakeDocker) -> None:
    up.impair(WORKER, loss_percent=2.5, rate_mbit=8)
    up.unimpair(WORKER)
    assert docker.journal == [
        ("helper", WORKER, IMAGE, "impair", "--delay-ms=0.0", "--loss-percent=2.5", "--rate-mbit=8"),
        ("helper", WORKER, IMAGE, "clear"),
    ]


def test_what_the_kernel_cannot_do_is_refused_with_its_reason(up: ComposeRuntime, docker: FakeDocker) -> None:
    docker.helped = (1, "noise\na delay needs netem\n")
    with pytest.raises(UnsupportedError, match="a delay needs netem"):
        up.impair(WORKER, delay_ms=10)
    with pytest.raises(EngineError, match="ray-worker-0 is still slow"):
        up.unimpair(WORKER)


def test_a_container_that_ended_took_its_slow_network_along(up: ComposeRuntime, docker: FakeDocker) -> None:
    up.kill(WORKER)
    docker.journal.clear()
    up.unimpair(WORKER)
    assert docker.journal == []
    with pytest.raises(LabDownError, match="ray-worker-0 is not running"):
        up.impair(WORKER, rate_mbit=1)


def test_what_a_network_can_do_is_tried_out_once(up: ComposeRuntime, docker: FakeDocker) -> None:
    assert up.missing(Feature.NETWORK) == up.missing(Feature.NETWORK_LOSS) == ""
    assert up.missing(Feature.NETWORK_DELAY) == "no netem"
    assert docker.journal == [("helper", "none", IMAGE, "abilities")]
    assert up.missing(Feature.SCRATCH_DISK) == up.missing(Feature.MEMORY_LIMIT) == ""


@pytest.mark.parametrize("said", ["", "no JSON", '{"delay": ""}'])
def test_an_answer_that_cannot_be_read_is_an_error(up: ComposeRuntime, docker: FakeDocker, said: str) -> None:
    docker.helped = (0, said)
    with pytest.raises(EngineError, match="network faults"):
        up.missing(Feature.NETWORK)


def test_of_a_lab_that_is_down_the_usual_image_is_asked(docker: FakeDocker, tmp_path: Path) -> None:
    down = docker.runtime(tmp_path / "lab")
    assert down.missing(Feature.NETWORK) == ""
    assert docker.journal[0][2].startswith("raylab/ray:")


# The key


@pytest.mark.parametrize("enabled", [True, False])
def test_the_training_key_is_switched_with_the_root_key(
    up: ComposeRuntime, enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str, bool]] = []

    def note(admin: MinioAdministration, access_key: str, enabled: bool) -> None:
        asked.append((admin.endpoint_url, access_key, enabled))

    monkeypatch.setattr(MinioAdministration, "set_user_enabled", note)
    up.set_training_key(enabled)
    endpoints = up.endpoints()
    assert asked == [(endpoints.s3, endpoints.credentials.access_key, enabled)]


def test_a_store_that_is_down_switches_no_key(up: ComposeRuntime) -> None:
    up.kill(STORE)
    with pytest.raises((LabDownError, StoreError), match="minio is not running"):
        up.set_training_key(False)


@pytest.mark.parametrize("call", ["crash", "disconnect", "reconnect", "impair", "unimpair"])
def test_an_unknown_service_and_a_lab_that_is_down_are_told(
    up: ComposeRuntime, docker: FakeDocker, call: str
) -> None:
    docker.journal.clear()
    with pytest.raises(NotFoundError, match="'ray-worker-9'"):
        getattr(up, call)("ray-worker-9")
    up.down()
    with pytest.raises(LabDownError, match="lab lab is not up"):
        getattr(up, call)(HEAD)
    assert not docker.done("helper", "network disconnect", "execute")
