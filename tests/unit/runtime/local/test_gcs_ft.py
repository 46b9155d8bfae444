"""The local runtime with the head's state in Redis: the service, its order, and what survives what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.errors import LabDownError, RefusedError, UnsupportedError
from lab.lab import Lab
from lab.runtime.base import Feature
from lab.runtime.local.runtime import LocalRuntime
from lab.services import HEAD, REDIS, STORE, worker
from lab.topology import State
from tests.unit.runtime.local.machine import SPEC, Machine

W0, W1 = worker(0), worker(1)
FT = replace(SPEC, gcs_ft=True)


@pytest.fixture
def up(machine: Machine, tmp_path: Path) -> LocalRuntime:
    machine.programs.add("redis-server")
    runtime = machine.runtime(tmp_path)
    runtime.up(FT)
    machine.journal.clear()
    return runtime


def test_redis_is_started_before_the_head_and_ended_after_it(machine: Machine, tmp_path: Path) -> None:
    machine.programs.add("valkey-server")
    runtime = machine.runtime(tmp_path)
    assert runtime.up(FT).healthy
    started = machine.services("spawn")
    assert started.index(REDIS) < started.index(HEAD)
    machine.journal.clear()
    runtime.down()
    ended = machine.services("end")
    assert ended.index(HEAD) < ended.index(REDIS) < ended.index(STORE)


def test_redis_listens_on_loopback_and_has_its_password_from_a_file(up: LocalRuntime) -> None:
    current = up._load()
    assert current is not None
    plan = up._plan(current)
    argv = plan.command(REDIS).argv
    assert argv[0] == "/bin/redis-server"
    assert argv[argv.index("--bind") + 1] == "127.0.0.1"
    assert argv[argv.index("--port") + 1] == str(plan.ports["redis"])
    password = plan.secrets.redis_password
    assert password in Path(argv[1]).read_text()
    head = plan.command(HEAD)
    assert head.environment["RAY_REDIS_ADDRESS"] == f"127.0.0.1:{plan.ports['redis']}"
    assert head.environment["RAY_external_storage_namespace"] == "raylab"
    for service in up._services(current):
        command = plan.command(service)
        assert password not in " ".join([*command.argv, *command.environment.values()]), service
        assert ("RAY_REDIS_ADDRESS" in command.environment) is (service == HEAD), service


def test_without_redis_on_the_machine_it_is_refused_before_anything_starts(
    machine: Machine, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match="`redis-server`") as caught:
        machine.runtime(tmp_path).up(FT)
    assert "apt-get install" in caught.value.hint
    assert machine.journal == []


def test_a_lab_without_it_is_another_lab(up: LocalRuntime) -> None:
    with pytest.raises(RefusedError, match="head's state in Redis"):
        up.up(SPEC)


def test_a_head_that_is_repaired_finds_its_state_and_its_workers(machine: Machine, up: LocalRuntime) -> None:
    mine = up._layout
    (mine.redis / "appendonly.aof").write_text("state")
    (mine.ray_temporary / "session").mkdir(parents=True)
    machine.die(HEAD)
    assert up.up(FT).healthy
    assert machine.services("spawn") == [HEAD]
    assert (mine.redis / "appendonly.aof").exists()
    assert (mine.ray_temporary / "session").exists()


def test_a_new_lab_finds_no_old_cluster(machine: Machine, up: LocalRuntime) -> None:
    state = up._layout.redis / "appendonly.aof"
    state.write_text("state")
    for service in (W1, W0, HEAD, REDIS):
        up.kill(service)
    up.down()
    assert not state.parent.exists()
    state.parent.mkdir()
    state.write_text("left by a labctl that was killed")
    assert up.up(FT).healthy
    assert not state.exists()


def test_the_workers_stay_when_their_head_is_restarted(machine: Machine, up: LocalRuntime) -> None:
    Lab(up).restart(HEAD)
    assert machine.journal == [("end", HEAD), ("spawn", HEAD)]


# What else faults need of this runtime


def test_a_crashed_service_is_started_again_at_once(machine: Machine, up: LocalRuntime) -> None:
    up.crash(W0)
    assert machine.journal == [("end", W0), ("spawn", W0)]
    with pytest.raises(LabDownError, match="is not up"):
        machine.runtime(up.folder().parent, "other").crash(W0)


OF_A_NODE = [feature for feature in Feature if feature not in (Feature.CORDON, Feature.PROCESSES)]


@pytest.mark.parametrize("feature", OF_A_NODE)
def test_nodes_of_one_machine_share_what_containers_have_of_their_own(
    up: LocalRuntime, feature: Feature
) -> None:
    assert up.missing(feature).startswith("the nodes of the local runtime share the machine's ")


def test_its_processes_are_within_reach(up: LocalRuntime) -> None:
    assert up.missing(Feature.PROCESSES) == ""


def test_only_a_cluster_has_machines_to_cordon(up: LocalRuntime) -> None:
    assert (
        up.missing(Feature.CORDON)
        == "services of the local runtime have no machine to be cordoned of their own"
    )


def test_the_network_of_a_process_cannot_be_touched(machine: Machine, up: LocalRuntime) -> None:
    for act in (up.disconnect, up.reconnect, up.unimpair, up.impair):
        with pytest.raises(UnsupportedError, match="loopback") as caught:
            act(W0)
        assert caught.value.hint == "use --runtime compose"
    assert machine.journal == []
    worker = up.status().service(W0)
    assert worker is not None
    assert worker.state is State.HEALTHY


def test_the_key_of_a_store_that_is_down_cannot_be_switched(up: LocalRuntime) -> None:
    up.kill(STORE)
    with pytest.raises(LabDownError, match="minio is not running"):
        up.set_training_key(False)
