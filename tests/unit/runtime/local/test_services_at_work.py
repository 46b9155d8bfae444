"""One service of the local runtime: its status, logs, kill, stop, pause, resume, start."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.errors import LabDownError, NotFoundError, ServiceError, WaitTimeoutError
from lab.runtime.base import Runtime
from lab.runtime.local import processes
from lab.runtime.local.runtime import LocalRuntime
from lab.services import HEAD, JUPYTER, QUEUE, STORE, worker
from lab.topology import State, Struck
from tests.unit.runtime.local.machine import SPEC, FakeProcess, Machine

W0, W1 = worker(0), worker(1)

CALLS: dict[str, Callable[[Runtime, str], object]] = {
    "logs": lambda runtime, service: runtime.logs(service),
    "kill": lambda runtime, service: runtime.kill(service),
    "stop": lambda runtime, service: runtime.stop(service),
    "pause": lambda runtime, service: runtime.pause(service),
    "resume": lambda runtime, service: runtime.resume(service),
    "start": lambda runtime, service: runtime.start(service),
}


@pytest.fixture
def runtime(machine: Machine, tmp_path: Path) -> LocalRuntime:
    """A lab that is up."""
    machine.runtime(tmp_path).up(SPEC)
    machine.journal.clear()
    return machine.runtime(tmp_path)


def state_of(runtime: Runtime, service: str) -> State:
    status = runtime.status().service(service)
    assert status is not None
    return status.state


@pytest.mark.parametrize("call", CALLS)
def test_an_unknown_service_is_named_with_the_known_ones(runtime: LocalRuntime, call: str) -> None:
    with pytest.raises(NotFoundError, match="'ray-worker-2'") as caught:
        CALLS[call](runtime, worker(2))
    assert "ray-worker-1" in caught.value.hint


@pytest.mark.parametrize("call", CALLS)
def test_a_lab_that_is_down_is_no_place_for_it(machine: Machine, tmp_path: Path, call: str) -> None:
    with pytest.raises(LabDownError, match="lab raylab is not up"):
        CALLS[call](machine.runtime(tmp_path), W0)
    assert not machine.running


@pytest.mark.parametrize("call", ["kill", "stop", "pause"])
def test_what_does_not_run_cannot_be_ended_or_frozen(
    machine: Machine, runtime: LocalRuntime, call: str
) -> None:
    machine.die(W0)

    with pytest.raises(LabDownError, match="ray-worker-0 is not running") as caught:
        CALLS[call](runtime, W0)
    assert "restart ray-worker-0" in caught.value.hint


@pytest.mark.parametrize(("call", "grace"), [("kill", 0.0), ("stop", 10.0)])
def test_kill_and_stop_end_the_whole_service_and_nothing_else(
    machine: Machine, runtime: LocalRuntime, call: str, grace: float
) -> None:
    mark = machine.running[machine.pid_of(W0)].mark
    machine.running[7] = FakeProcess(7, machine.now, mark, leader=False)

    CALLS[call](runtime, W0)

    assert machine.graces == {W0: grace}
    assert machine.alive == [STORE, QUEUE, JUPYTER, HEAD, W1]
    assert 7 not in machine.running
    assert state_of(runtime, W0) is State.EXITED


def test_a_node_can_be_killed_when_only_what_its_leader_left_behind_runs(
    machine: Machine, runtime: LocalRuntime
) -> None:
    mark = machine.running[machine.pid_of(W0)].mark
    machine.die(W0)
    machine.running[7] = FakeProcess(7, machine.now, mark, leader=False)

    runtime.kill(W0)

    assert 7 not in machine.running


def test_pause_freezes_all_of_a_service_and_resume_lets_it_go_on(
    machine: Machine, runtime: LocalRuntime
) -> None:
    mark = machine.running[machine.pid_of(W0)].mark
    machine.running[7] = FakeProcess(7, machine.now, mark, leader=False)

    runtime.pause(W0)
    assert state_of(runtime, W0) is State.PAUSED
    assert {p.mark for p in machine.running.values() if p.frozen} == {mark}
    assert machine.running[7].frozen

    runtime.resume(W0)
    assert not any(p.frozen for p in machine.running.values())
    assert state_of(runtime, W0) is State.HEALTHY


def test_pause_catches_a_process_that_was_just_being_made(
    machine: Machine, runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = machine.running[machine.pid_of(W0)].mark

    def send_while_one_is_born(members: list[FakeProcess], number: object) -> Struck:
        struck = machine.send(members, number)  # type: ignore[arg-type]
        machine.running.setdefault(7, FakeProcess(7, machine.now, mark, leader=False))
        return struck

    monkeypatch.setattr(processes, "send", send_while_one_is_born)
    runtime.pause(W0)

    assert machine.running[7].frozen


def test_resume_of_what_is_not_paused_does_nothing(machine: Machine, runtime: LocalRuntime) -> None:
    before = dict(machine.running)

    runtime.resume(W0)

    assert machine.running == before


def test_start_brings_a_dead_service_back_and_waits(machine: Machine, runtime: LocalRuntime) -> None:
    runtime.kill(W0)

    runtime.start(W0)

    assert state_of(runtime, W0) is State.HEALTHY
    assert machine.services("spawn") == [W0]


@pytest.mark.parametrize("service", [W0, JUPYTER])
def test_start_of_a_healthy_service_does_nothing(
    machine: Machine, runtime: LocalRuntime, service: str
) -> None:
    runtime.start(service)

    assert not machine.journal


def test_start_leaves_a_paused_service_paused(machine: Machine, runtime: LocalRuntime) -> None:
    runtime.pause(W0)
    runtime.start(W0)

    assert state_of(runtime, W0) is State.PAUSED
    assert not machine.services("spawn")


def test_start_clears_away_a_node_that_lost_its_cluster(machine: Machine, runtime: LocalRuntime) -> None:
    machine.unready.add(W0)
    machine.on_spawn[W0] = machine.unready.clear

    runtime.start(W0)

    assert machine.journal == [("end", W0), ("spawn", W0)]


def test_a_worker_that_may_train_is_left_alone_while_ray_does_not_answer(
    machine: Machine, runtime: LocalRuntime
) -> None:
    machine.unready.add(W0)
    machine.silent = True
    with pytest.raises(WaitTimeoutError, match=f"{W0} was left alone: .*30"):
        runtime.start(W0)
    assert machine.journal == []


def test_start_only_waits_for_a_client_that_is_not_ready_yet(machine: Machine, runtime: LocalRuntime) -> None:
    machine.unready.add(JUPYTER)
    asked = iter(range(3))
    machine.on_probe[JUPYTER] = lambda: None if next(asked, None) is not None else machine.unready.clear()

    runtime.start(JUPYTER)

    assert not machine.services("spawn")


def test_start_without_waiting_returns_before_the_service_serves(
    machine: Machine, runtime: LocalRuntime
) -> None:
    runtime.kill(W0)
    machine.unready.add(W0)

    runtime.start(W0, wait=False)

    assert state_of(runtime, W0) is State.RUNNING


def test_start_that_fails_says_why(machine: Machine, runtime: LocalRuntime) -> None:
    runtime.kill(W0)
    machine.dies.add(W0)

    with pytest.raises(ServiceError, match="ray-worker-0 ended"):
        runtime.start(W0)
    assert state_of(runtime, W0) is State.EXITED


# Status


def test_status_says_why_a_service_is_not_healthy(machine: Machine, runtime: LocalRuntime) -> None:
    machine.die(W0)
    machine.unready.add(JUPYTER)
    runtime.pause(W1)

    status = runtime.status()

    states = {s.service: (s.state, s.detail) for s in status.services}
    assert states[W0] == (State.EXITED, "its process has ended")
    assert states[W1] == (State.PAUSED, "its processes are frozen")
    assert states[JUPYTER] == (State.RUNNING, "http://127.0.0.1:8888/api/status does not answer")
    assert states[STORE] == (State.HEALTHY, "moto stands in for MinIO")
    assert status.up
    assert not status.healthy


def test_status_has_addresses_and_process_ids(machine: Machine, runtime: LocalRuntime) -> None:
    head, node = runtime.status().service(HEAD), runtime.status().service(W0)

    assert head is not None
    assert node is not None
    assert (head.url, head.pid) == ("http://127.0.0.1:8265", machine.pid_of(HEAD))
    assert node.url == ""


def test_a_lab_whose_processes_have_all_ended_is_down(machine: Machine, runtime: LocalRuntime) -> None:
    machine.running.clear()

    status = runtime.status()

    assert not status.up
    assert {s.state for s in status.services} == {State.EXITED}
    with pytest.raises(LabDownError):
        runtime.spec()


def test_a_lab_that_never_was_is_down(machine: Machine, tmp_path: Path) -> None:
    status = machine.runtime(tmp_path).status()

    assert (status.up, status.services) == (False, ())
    assert not (tmp_path / "raylab").exists()


def test_endpoints_carry_the_secrets_that_are_in_the_files(runtime: LocalRuntime, tmp_path: Path) -> None:
    endpoints = runtime.endpoints()

    secrets = tmp_path / "raylab" / "secrets"
    assert Path(endpoints.ray_token_file).read_text() == endpoints.ray_token
    assert json.loads((secrets / "s3.json").read_text()) == {
        "access_key": endpoints.credentials.access_key,
        "secret_key": endpoints.credentials.secret_key,
    }
    assert endpoints.jupyter.endswith((secrets / "jupyter.token").read_text())
    assert endpoints.prometheus == ""


# Logs


def log(tmp_path: Path, text: str) -> None:
    (tmp_path / "raylab" / "logs" / f"{W0}.log").write_text(text)


@pytest.mark.parametrize(
    ("tail", "expected"), [(None, ["a", "b", "c"]), (2, ["b", "c"]), (0, []), (9, ["a", "b", "c"])]
)
def test_logs_give_the_last_lines(
    runtime: LocalRuntime, tmp_path: Path, tail: int | None, expected: list[str]
) -> None:
    log(tmp_path, "a\nb\nc\n")

    assert list(runtime.logs(W0, tail=tail)) == expected


def test_logs_are_there_after_the_service_has_died(
    machine: Machine, runtime: LocalRuntime, tmp_path: Path
) -> None:
    machine.running.clear()

    assert list(runtime.logs(W0)) == [f"{W0} says hello"]


def test_a_log_that_is_not_utf_8_can_be_read(runtime: LocalRuntime, tmp_path: Path) -> None:
    (tmp_path / "raylab" / "logs" / f"{W0}.log").write_bytes(b"caf\xe9\n")

    assert list(runtime.logs(W0)) == ["caf\ufffd"]


def test_following_waits_for_whole_lines_and_ends_with_the_lab(
    machine: Machine, runtime: LocalRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "raylab" / "logs" / f"{W0}.log"
    path.write_text("one\n")

    def steps() -> Iterator[None]:
        for text in ("tw", "o\nthree\n"):
            with path.open("a") as stream:
                stream.write(text)
            yield
        runtime.down()
        while True:
            yield

    play = steps()
    monkeypatch.setattr(machine.clock, "sleep", lambda _: next(play))

    assert list(runtime.logs(W0, follow=True)) == ["one", "two", "three"]
