"""`restart` of a lab on the local runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.errors import LabDownError, RefusedError, ServiceError
from lab.lab import Lab
from lab.runtime.local import processes
from lab.services import HEAD, JUPYTER, STORE, worker
from lab.topology import Progress, State
from tests.unit.runtime.local.machine import SPEC, Machine

W0, W1 = worker(0), worker(1)


@pytest.fixture
def lab(machine: Machine, tmp_path: Path) -> Lab:
    machine.runtime(tmp_path).up(SPEC)
    machine.journal.clear()
    return Lab(machine.runtime(tmp_path))


def test_the_workers_go_with_their_head_and_come_back_after_it(machine: Machine, lab: Lab) -> None:
    steps: list[Progress] = []
    kept = {name: machine.pid_of(name) for name in (STORE, JUPYTER)}

    lab.restart(HEAD, steps.append)

    assert machine.journal == [
        *[("end", name) for name in (W1, W0, HEAD)],
        *[("spawn", name) for name in (HEAD, W0, W1)],
    ]
    assert [p.service for p in steps if p.state is State.HEALTHY] == [HEAD, W0, W1]
    assert {name: machine.pid_of(name) for name in kept} == kept
    assert lab.status().healthy


def test_it_is_said_before_anything_ends(machine: Machine, lab: Lab) -> None:
    steps: list[tuple[Progress, int]] = []

    lab.restart(HEAD, lambda step: steps.append((step, len(machine.services("end")))))

    first, ended_by_then = steps[0]
    assert first.service == HEAD
    assert first.detail == "restarting it restarts ray-worker-0, ray-worker-1 too; running jobs end"
    assert ended_by_then == 0


def test_what_was_down_comes_back_too(machine: Machine, lab: Lab) -> None:
    machine.die(HEAD)
    machine.die(W1)

    lab.restart(HEAD)

    assert machine.services("end") == [W0]
    assert lab.status().healthy


def test_a_worker_is_restarted_alone_and_without_a_warning(machine: Machine, lab: Lab) -> None:
    steps: list[Progress] = []

    lab.restart(W0, steps.append)

    assert machine.journal == [("end", W0), ("spawn", W0)]
    assert not any("running jobs" in p.detail for p in steps)


def test_no_worker_is_started_without_a_head(machine: Machine, lab: Lab) -> None:
    machine.dies.add(HEAD)

    with pytest.raises(ServiceError, match="ray-head ended"):
        lab.restart(HEAD)
    assert machine.services("spawn") == [HEAD]


def test_a_lab_that_is_down_has_no_head_to_restart(machine: Machine, tmp_path: Path) -> None:
    steps: list[Progress] = []

    with pytest.raises(LabDownError):
        Lab(machine.runtime(tmp_path)).restart(HEAD, steps.append)
    assert steps == []


@pytest.mark.parametrize(
    "act",
    [
        lambda lab: lab.restart(JUPYTER),
        lambda lab: lab.runtime.stop(JUPYTER),
        lambda lab: lab.runtime.kill(JUPYTER),
        lambda lab: lab.runtime.pause(JUPYTER),
    ],
)
def test_a_notebook_cannot_end_the_service_it_runs_in(
    machine: Machine, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Lab], None]
) -> None:
    monkeypatch.setenv(processes.MARK, f"{tmp_path}/raylab:{JUPYTER}")

    with pytest.raises(RefusedError, match="runs in jupyter") as caught:
        act(lab)
    assert caught.value.hint == "in a shell of the machine: labctl restart jupyter --lab raylab"
    assert machine.journal == []
    lab.restart(W0)
    assert machine.journal == [("end", W0), ("spawn", W0)]


def test_a_job_on_a_worker_cannot_restart_the_head_with_which_it_ends(
    machine: Machine, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(processes.MARK, f"{tmp_path}/raylab:{W0}")

    with pytest.raises(RefusedError, match="runs in ray-worker-0") as caught:
        lab.restart(HEAD)
    assert "labctl restart ray-head" in caught.value.hint
    assert machine.journal == [], "not even the other worker was stopped"
