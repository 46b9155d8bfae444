"""The fork server of a lab of plain processes: started first, ended last, and never in the way."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from lab.errors import ServiceError
from lab.runtime.local import forks, reserve, services, state
from lab.runtime.local.processes import FORK_SERVER_OF, MARK
from lab.runtime.local.services import FORKS
from lab.services import HEAD, worker
from lab.topology import Progress, State
from tests.unit.runtime.local.machine import SPEC, Machine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are made on Linux")


def test_it_serves_before_the_first_node_starts(machine: Machine, tmp_path: Path) -> None:
    seen: list[bool] = []
    machine.on_spawn[HEAD] = lambda: seen.append(machine.fork_server is not None)
    machine.runtime(tmp_path).up(SPEC)
    assert seen == [True]
    assert machine.forks == ["spawn"]


def test_the_nodes_wait_for_it_and_start_without_it_when_it_fails(machine: Machine, tmp_path: Path) -> None:
    machine.forks_fail = True
    steps: list[Progress] = []
    machine.runtime(tmp_path).up(SPEC, steps.append)
    words = [step for step in steps if step.service == FORKS]
    assert [step.state for step in words] == [State.EXITED] * 3  # each node says so
    assert "processes start slowly" in words[0].detail
    assert worker(1) in machine.alive


def test_one_that_is_silent_is_waited_for_once_by_all_nodes_together(
    machine: Machine, tmp_path: Path
) -> None:
    machine.forks_silent = True
    steps: list[Progress] = []
    begin = machine.now
    machine.runtime(tmp_path).up(SPEC, steps.append)
    assert machine.now - begin == pytest.approx(forks.READY_SECONDS, abs=1.0)
    assert [step.state for step in steps if step.service == FORKS] == [State.EXITED] * 3
    assert {HEAD, worker(0), worker(1)} <= set(machine.alive)


def test_one_that_listens_late_forks_the_nodes_that_come_then(machine: Machine, tmp_path: Path) -> None:
    machine.forks_silent = True
    steps: list[Progress] = []
    runtime = machine.runtime(tmp_path)
    machine.on_spawn[worker(0)] = (runtime._layout.forks / "node.sock").touch
    runtime.up(SPEC, steps.append)
    assert [step.state for step in steps if step.service == FORKS] == [State.EXITED] * 2


def test_down_ends_it(machine: Machine, tmp_path: Path) -> None:
    runtime = machine.runtime(tmp_path)
    runtime.up(SPEC)
    assert FORKS not in runtime.down()
    assert machine.forks == ["spawn", "end"]
    assert not runtime._layout.forks.exists()


def test_a_boot_that_fails_ends_it(machine: Machine, tmp_path: Path) -> None:
    machine.dies.add(worker(0))
    with pytest.raises(ServiceError):
        machine.runtime(tmp_path).up(SPEC)
    assert machine.forks == ["spawn", "end"]


def test_a_repair_starts_a_new_one_and_leaves_what_the_old_one_forked(
    machine: Machine, tmp_path: Path
) -> None:
    runtime = machine.runtime(tmp_path)
    runtime.up(SPEC)
    machine.fork_server = None
    machine.die(worker(0))
    runtime.up(SPEC)
    assert machine.forks == ["spawn", "spawn"]
    assert machine.services("end") == []


@pytest.mark.parametrize("change", ["up", "start"])
def test_what_one_that_died_has_left_is_gone_before_a_node_starts(
    machine: Machine, tmp_path: Path, change: str
) -> None:
    runtime = machine.runtime(tmp_path)
    runtime.up(SPEC)
    machine.fork_server = None
    for service in (HEAD, worker(0), worker(1)):
        machine.die(service)
    machine.orphans = {"the head's dashboard, which has its port"}
    left: list[bool] = []
    machine.on_spawn[HEAD] = lambda: left.append(bool(machine.orphans))
    if change == "up":
        runtime.up(SPEC)
    else:
        runtime.start(HEAD)
    assert left == [False]


def test_what_one_that_runs_has_just_forked_is_left_alone(machine: Machine, tmp_path: Path) -> None:
    runtime = machine.runtime(tmp_path)
    runtime.up(SPEC)
    machine.die(worker(0))
    machine.orphans = {"a fork whose launcher has not taken its name yet"}
    runtime.up(SPEC)
    assert machine.orphans


def test_it_alone_is_no_lab(machine: Machine, tmp_path: Path) -> None:
    runtime = machine.runtime(tmp_path)
    runtime.up(SPEC)
    for service in list(machine.alive):
        machine.die(service)
    current = state.load(tmp_path / "raylab")
    assert current is not None
    assert machine.fork_server is not None
    assert not reserve.anything_alive(current)
    assert not runtime.status().up


def test_it_is_no_service_and_has_no_mark(machine: Machine, tmp_path: Path) -> None:
    runtime = machine.runtime(tmp_path)
    assert FORKS not in [service.service for service in runtime.up(SPEC).services]
    current = state.load(tmp_path / "raylab")
    assert current is not None
    plan = runtime._plan(current)
    server, node = plan.command(FORKS), plan.command(worker(0))
    assert MARK not in server.environment
    assert server.environment[FORK_SERVER_OF] == str(tmp_path / "raylab")
    differing = {
        name
        for name in {*server.environment, *node.environment}
        if server.environment.get(name) != node.environment.get(name)
    }
    assert differing == {MARK, FORK_SERVER_OF, "RAYLAB_SERVICE_NAME"}


def test_a_lab_of_stock_ray_has_none(machine: Machine, tmp_path: Path) -> None:
    runtime = machine.runtime(tmp_path)
    runtime.up(dataclasses.replace(SPEC, stock_ray=True))
    assert machine.forks == []
    current = state.load(tmp_path / "raylab")
    assert current is not None
    node = runtime._plan(current).command(HEAD)
    assert str(services.LAUNCHER) not in node.argv
    assert "RAYLAB_FORK_FOLDER" not in node.environment
