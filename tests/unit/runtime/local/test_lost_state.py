"""A lab of processes whose state file is damaged or gone: it is found by its marks, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.runtime.local import processes, state
from lab.services import HEAD, JUPYTER, QUEUE, STORE, worker
from tests.unit.runtime.damages import check_down, check_refused, damages
from tests.unit.runtime.local.machine import SPEC, FakeProcess, Machine

ALL = {STORE, HEAD, QUEUE, JUPYTER, worker(0), worker(1)}

DAMAGES = damages("raylab-local/3")


@pytest.fixture
def folder(machine: Machine, tmp_path: Path) -> Path:
    """The folder of a lab that is up, beside another one."""
    machine.runtime(tmp_path, "other").up(SPEC)
    machine.runtime(tmp_path).up(SPEC)
    machine.journal.clear()
    return tmp_path / "raylab"


@pytest.mark.parametrize("alive", [ALL, {STORE}, {worker(1), JUPYTER}], ids=len)
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_runs_is_named_left_alone_and_ended_by_down(
    machine: Machine, tmp_path: Path, folder: Path, damage: str, alive: set[str]
) -> None:
    act, said = DAMAGES[damage]
    path = folder / state.FILE
    (folder / "objects" / "moto" / "precious").mkdir(parents=True)
    for service in ALL - alive:
        own = next(pid for pid, p in machine.running.items() if p.mark == f"{folder}:{service}")
        del machine.running[own]
    act(path)
    before = dict(machine.running)

    check_refused(machine.runtime(tmp_path), SPEC, path, said, alive)
    assert (machine.running, machine.journal) == (before, [])

    assert set(machine.runtime(tmp_path).down()) == alive
    assert {p.mark.split(":")[0] for p in machine.running.values()} == {str(tmp_path / "other")}
    assert machine.runtime(tmp_path, "other").status().healthy
    assert (folder / "objects" / "moto" / "precious").is_dir() or damage == "the whole folder"
    assert not machine.runtime(tmp_path).status().up
    assert machine.runtime(tmp_path).up(SPEC).healthy


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name != "the whole folder"])
def test_where_nothing_runs_the_lab_is_down_and_up_starts_it_anew(
    machine: Machine, tmp_path: Path, folder: Path, damage: str
) -> None:
    act, said = DAMAGES[damage]
    machine.running = {pid: p for pid, p in machine.running.items() if not p.mark.startswith(f"{folder}:")}
    act(folder / state.FILE)
    check_down(machine.runtime(tmp_path), SPEC, damage, said)


def test_a_lab_that_never_was_has_no_state_to_miss(machine: Machine, tmp_path: Path) -> None:
    status = machine.runtime(tmp_path).status()

    assert (status.up, status.notes) == (False, ())


def test_services_are_known_by_the_mark_of_their_folder(machine: Machine, tmp_path: Path) -> None:
    for pid, mark in enumerate(("a:minio", f"a:{HEAD}", "a-2:jupyter", f"a:{HEAD}")):
        machine.running[pid] = FakeProcess(pid, machine.now, f"{tmp_path}/{mark}")
    machine.running[7] = FakeProcess(7, machine.now, "")

    assert processes.services_of(tmp_path / "a") == {STORE, HEAD}
    assert processes.services_of(tmp_path) == set()
