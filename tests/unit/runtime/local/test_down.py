"""`down` of the local runtime, from whatever half-state."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import RefusedError, SetupError
from lab.runtime.local import processes, state
from lab.services import HEAD, JUPYTER, QUEUE, STORE, worker
from lab.topology import Progress, State
from tests.unit.runtime.local.machine import SPEC, FakeProcess, Machine


@pytest.fixture
def lab(machine: Machine, tmp_path: Path) -> Path:
    """The folder of a lab that is up."""
    machine.runtime(tmp_path).up(SPEC)
    machine.journal.clear()
    return tmp_path / "raylab"


def test_clients_go_first_then_workers_then_the_head_then_the_store(
    machine: Machine, tmp_path: Path, lab: Path
) -> None:
    steps: list[Progress] = []

    stopped = machine.runtime(tmp_path).down(on_progress=steps.append)

    assert stopped == (JUPYTER, QUEUE, worker(0), worker(1), HEAD, STORE)
    assert machine.services("end") == list(stopped)
    assert [p.service for p in steps if p.state is State.EXITED] == list(stopped)
    assert not machine.running
    assert not machine.runtime(tmp_path).status().services


def test_nodes_are_killed_and_the_others_may_finish(machine: Machine, tmp_path: Path, lab: Path) -> None:
    machine.runtime(tmp_path).down()

    assert {name for name, grace in machine.graces.items() if grace == 0} == {HEAD, worker(0), worker(1)}
    assert machine.graces[STORE] > 0


def test_objects_secrets_and_logs_survive_and_the_state_does_not(
    machine: Machine, tmp_path: Path, lab: Path
) -> None:
    machine.runtime(tmp_path).down()

    assert {"objects", "secrets", "logs"} <= {entry.name for entry in lab.iterdir()}
    assert not (lab / state.FILE).exists()
    assert not (tmp_path / "ray-raylab").exists()


def test_volumes_removes_everything(machine: Machine, tmp_path: Path, lab: Path) -> None:
    machine.runtime(tmp_path).down(volumes=True)

    assert not lab.exists()
    assert not machine.running


def test_what_cannot_be_deleted_is_named(
    machine: Machine, tmp_path: Path, lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(path: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise OSError(16, "Device or resource busy", str(path))

    monkeypatch.setattr("lab.runtime.local.runtime.shutil.rmtree", busy)
    with pytest.raises(SetupError, match=rf"{lab}/\w+: Device or resource busy") as caught:
        machine.runtime(tmp_path).down(volumes=True)
    assert "mount point" in caught.value.hint
    monkeypatch.undo()
    machine.runtime(tmp_path).down(volumes=True)
    assert not lab.exists()


def test_a_lab_that_never_was_or_is_down_already_is_no_error(machine: Machine, tmp_path: Path) -> None:
    assert machine.runtime(tmp_path).down(volumes=True) == ()
    assert not (tmp_path / "raylab").exists()

    machine.runtime(tmp_path).up(SPEC)
    machine.runtime(tmp_path).down()
    assert machine.runtime(tmp_path).down() == ()


@pytest.mark.parametrize("dead", [[STORE], [HEAD], [worker(0), JUPYTER], [STORE, HEAD, worker(0), worker(1)]])
def test_what_is_still_there_is_stopped(machine: Machine, tmp_path: Path, lab: Path, dead: list[str]) -> None:
    for service in dead:
        machine.die(service)

    assert set(machine.runtime(tmp_path).down()) == {STORE, HEAD, worker(0), worker(1), QUEUE, JUPYTER} - {
        *dead
    }
    assert not machine.running


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b'{"schema": "raylab-local/0"}',
        b'{"schema": "raylab-local/2", "spec": {"name": "raylab", "workers": 0, "cpus_per_worker": 1,'
        b' "ports": [], "gpu": {"vendor": "none", "assignments": [], "reason": ""}}}',
    ],
)
def test_a_damaged_state_file_does_not_stop_it(
    machine: Machine, tmp_path: Path, lab: Path, content: bytes
) -> None:
    (lab / state.FILE).write_bytes(content)

    assert set(machine.runtime(tmp_path).down()) == {STORE, HEAD, worker(0), worker(1), QUEUE, JUPYTER}
    assert not machine.running
    assert machine.runtime(tmp_path).up(SPEC).healthy


def test_a_missing_state_file_does_not_stop_it(machine: Machine, tmp_path: Path, lab: Path) -> None:
    (lab / state.FILE).unlink()

    machine.runtime(tmp_path).down()

    assert not machine.running


def test_what_a_service_left_behind_is_stopped_with_it(machine: Machine, tmp_path: Path, lab: Path) -> None:
    mark = next(p.mark for p in machine.running.values() if p.mark.endswith(worker(0)))
    machine.die(worker(0))
    machine.running[7] = FakeProcess(7, machine.now, mark, leader=False)

    assert worker(0) in machine.runtime(tmp_path).down()
    assert not machine.running


def test_nothing_that_is_not_the_labs_is_touched(machine: Machine, tmp_path: Path, lab: Path) -> None:
    machine.runtime(tmp_path, "other").up(SPEC)
    machine.running[7] = FakeProcess(7, machine.now, "")
    others = {pid: p for pid, p in machine.running.items() if not p.mark.startswith(f"{lab}:")}

    machine.runtime(tmp_path).down(volumes=True)

    assert machine.running == others
    assert len(others) == 7
    assert machine.runtime(tmp_path, "other").status().healthy


def test_an_interrupted_down_can_be_repeated(machine: Machine, tmp_path: Path, lab: Path) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.service == worker(1):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        machine.runtime(tmp_path).down(on_progress=interrupt)
    assert machine.running

    assert machine.runtime(tmp_path).down() == (worker(1), HEAD, STORE)


def test_a_notebook_of_the_lab_cannot_take_down_what_it_runs_in(
    machine: Machine, tmp_path: Path, lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(processes.MARK, f"{lab}:{JUPYTER}")

    with pytest.raises(RefusedError, match="would end with it") as caught:
        machine.runtime(tmp_path).down()
    assert "labctl down --lab raylab" in caught.value.hint
    assert not machine.services("end")
    monkeypatch.setenv(processes.MARK, f"{lab}-2:{JUPYTER}")
    assert machine.runtime(tmp_path).down(), "a lab whose name begins alike is another one"
