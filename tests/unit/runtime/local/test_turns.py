"""What changes a lab takes turns: `up`, `down`, and every start, that of a revert included."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from lab.errors import LabDownError, MovedError, RefusedError, SetupError
from lab.host.files import lock, take_lock
from lab.runtime.local import state
from lab.runtime.local.runtime import LocalRuntime
from lab.services import JUPYTER, worker
from lab.topology import LabStatus, Progress
from tests.unit.runtime.local.machine import SPEC, Machine

W0, W1 = worker(0), worker(1)

CHANGES: dict[str, Callable[[LocalRuntime], object]] = {
    "up": lambda runtime: runtime.up(SPEC),
    "down": lambda runtime: runtime.down(),
    "down with its objects": lambda runtime: runtime.down(volumes=True),
    "start": lambda runtime: runtime.start(W0),
    "crash": lambda runtime: runtime.crash(W1),
}


@pytest.fixture
def runtime(machine: Machine, tmp_path: Path) -> LocalRuntime:
    """A lab of which W0 was killed."""
    machine.runtime(tmp_path).up(SPEC)
    machine.runtime(tmp_path).kill(W0)
    machine.journal.clear()
    return machine.runtime(tmp_path)


class Other:
    """Another labctl that changes the lab, until some time has passed."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self._machine, self._held = machine, ExitStack()
        self._held.enter_context(lock(folder / "raylab" / "lock", "starting ray-worker-1"))

    def ends_after(self, seconds: float, *last: Callable[[], object]) -> None:
        """What it, or whoever comes next, does in the end comes before anybody else's turn."""

        def end() -> None:
            self._held.close()
            for act in last:
                act()

        self._machine.clock.after(seconds, end)


@pytest.mark.parametrize("change", CHANGES)
def test_who_changes_the_lab_waits_for_another_and_names_it_in_the_end(
    machine: Machine, tmp_path: Path, runtime: LocalRuntime, change: str
) -> None:
    other = Other(machine, tmp_path)
    begin = machine.now
    with pytest.raises(SetupError, match="starting ray-worker-1"):
        CHANGES[change](runtime)
    assert machine.now - begin == pytest.approx(LocalRuntime.patience, abs=1)
    assert machine.services("spawn") == []
    other.ends_after(0.0)


def test_who_waits_says_so(machine: Machine, tmp_path: Path, runtime: LocalRuntime) -> None:
    Other(machine, tmp_path).ends_after(5.0)
    said: list[Progress] = []
    assert runtime.up(SPEC, said.append).healthy
    assert said[0].service == "lab raylab"
    assert said[0].detail.startswith("waiting: another labctl (process ")
    assert said[0].detail.endswith(") is busy with starting ray-worker-1")


@pytest.mark.parametrize("volumes", [False, True])
def test_nothing_starts_in_a_lab_that_was_taken_down_meanwhile(
    machine: Machine, tmp_path: Path, runtime: LocalRuntime, volumes: bool
) -> None:
    down = machine.runtime(tmp_path).down
    Other(machine, tmp_path).ends_after(5.0, lambda: down(volumes=volumes))
    with pytest.raises(LabDownError):
        runtime.start(W0)
    assert machine.services("spawn") == []
    assert not machine.running
    assert (tmp_path / "raylab").exists() != volumes, "the lock made its folder anew"
    assert not (tmp_path / "raylab" / state.FILE).exists()


def test_an_up_saves_no_older_leaders_than_a_start_beside_it(
    machine: Machine, tmp_path: Path, runtime: LocalRuntime
) -> None:
    machine.die(JUPYTER)
    other = machine.runtime(tmp_path)
    Other(machine, tmp_path).ends_after(5.0, lambda: other.start(W0))
    assert runtime.up(SPEC).healthy
    assert machine.services("spawn") == [W0, JUPYTER]
    kept = state.load(tmp_path / "raylab")
    assert kept is not None
    assert kept.leaders[W0].pid == machine.pid_of(W0)


@pytest.mark.parametrize("change", [name for name in CHANGES if name != "crash"])
def test_nothing_is_changed_when_another_started_the_lab_on_the_other_runtime_meanwhile(
    machine: Machine, tmp_path: Path, runtime: LocalRuntime, change: str
) -> None:
    elsewhere = tmp_path / "raylab" / "compose.json"
    before = state.load(tmp_path / "raylab")
    Other(machine, tmp_path).ends_after(5.0, lambda: elsewhere.write_text("{}"))
    with pytest.raises(MovedError):
        CHANGES[change](runtime)
    assert machine.journal == []
    assert state.load(tmp_path / "raylab") == before


def test_two_starts_keep_both_identities(machine: Machine, tmp_path: Path, runtime: LocalRuntime) -> None:
    runtime.kill(W1)
    other = machine.runtime(tmp_path)
    Other(machine, tmp_path).ends_after(5.0, lambda: other.start(W1))
    runtime.start(W0)
    assert machine.services("spawn") == [W1, W0]
    assert runtime.status().healthy


def test_an_up_is_answered_with_the_lab_as_it_is_in_its_turn(
    tmp_path: Path, runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordinary, looked = LocalRuntime.status, list[bool]()

    def status(runtime: LocalRuntime) -> LabStatus:
        with pytest.raises(BlockingIOError):
            take_lock(tmp_path / "raylab" / "lock")
        looked.append(True)
        return ordinary(runtime)

    monkeypatch.setattr(LocalRuntime, "status", status)
    assert runtime.up(SPEC).healthy
    assert looked == [True]


def test_an_up_for_whose_turn_a_down_waits_does_not_say_that_the_lab_is_healthy(
    machine: Machine, tmp_path: Path, runtime: LocalRuntime
) -> None:
    with (
        lock(tmp_path / "raylab" / "down.lock", "stopping lab raylab"),
        pytest.raises(RefusedError, match=r"does not stay up: .*stopping"),
    ):
        runtime.up(SPEC)
    assert machine.services("end") == [], "that is left to whoever ends it"
    assert runtime.up(SPEC).healthy


@pytest.mark.parametrize("volumes", [False, True])
def test_a_down_that_waits_can_be_seen_by_an_up_and_leaves_nothing_of_it(
    machine: Machine, tmp_path: Path, runtime: LocalRuntime, volumes: bool
) -> None:
    seen: list[bool] = []
    ending = tmp_path / "raylab" / "down.lock"
    Other(machine, tmp_path).ends_after(5.0, lambda: seen.append(ending.exists()))
    assert runtime.down(volumes=volumes)
    assert (seen, ending.exists()) == ([True], False)
    assert (tmp_path / "raylab").exists() != volumes
