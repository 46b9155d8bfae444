"""A lab that is booted to train, without the services whose packages are not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import NotFoundError, SetupError
from lab.host import environment
from lab.runtime.local import state
from lab.runtime.local.runtime import LocalRuntime
from lab.services import HEAD, JUPYTER, QUEUE, STORE, worker
from lab.topology import Progress, State
from tests.unit.runtime.local.machine import SPEC, Machine

TRAINS = [STORE, QUEUE, HEAD, worker(0), worker(1)]


class Packages:
    """The groups that are installed, in place of this interpreter's."""

    def __init__(self) -> None:
        self.there = {"cli", "local"}
        self.broken = ""
        """The group that cannot be installed."""

    def ensure(self, group: str) -> bool:
        if group == self.broken:
            raise SetupError(f"installing {group} failed")
        new = group not in self.there
        self.there.add(group)
        return new

    def installed(self, group: str) -> bool:
        return group in self.there


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> Packages:
    packages = Packages()
    monkeypatch.setattr(environment, "ensure", packages.ensure)
    monkeypatch.setattr(environment, "installed", packages.installed)
    return packages


@pytest.fixture
def runtime(machine: Machine, packages: Packages, tmp_path: Path) -> LocalRuntime:
    """That of a lab that was booted without JupyterLab."""
    runtime = machine.runtime(tmp_path)
    runtime.up_to_train(SPEC)
    return runtime


def test_a_lab_without_the_packages_of_jupyter_is_whole_and_says_what_it_lacks(
    machine: Machine, packages: Packages, tmp_path: Path
) -> None:
    steps: list[Progress] = []
    status = machine.runtime(tmp_path).up_to_train(SPEC, steps.append)

    assert machine.services("spawn") == TRAINS
    assert packages.there == {"cli", "local"}
    assert status.healthy
    assert [s.service for s in status.services] == TRAINS
    assert any("jupyter: left out for now" in note and "`labctl up`" in note for note in status.notes)
    assert (steps[0].service, steps[0].state) == (JUPYTER, State.ABSENT)


def test_with_its_packages_jupyter_is_started_with_the_rest(
    machine: Machine, packages: Packages, tmp_path: Path
) -> None:
    packages.ensure("jupyter")
    status = machine.runtime(tmp_path).up_to_train(SPEC)

    assert set(machine.services("spawn")) == {*TRAINS, JUPYTER}
    assert not any(JUPYTER in note for note in status.notes)


def test_up_installs_and_starts_what_was_left_out_and_nothing_else(
    machine: Machine, runtime: LocalRuntime, packages: Packages
) -> None:
    status = runtime.up(SPEC)

    assert machine.services("spawn") == [*TRAINS, JUPYTER]
    assert "jupyter" in packages.there
    assert status.healthy
    assert status.service(JUPYTER) is not None


@pytest.mark.parametrize("alone", [False, True])
def test_what_was_left_out_can_be_started(
    machine: Machine, runtime: LocalRuntime, tmp_path: Path, alone: bool
) -> None:
    steps: list[Progress] = []
    runtime.start(JUPYTER, steps.append) if alone else runtime.start_left_out(steps.append)

    assert machine.services("spawn") == [*TRAINS, JUPYTER]
    assert steps[-1].state is State.HEALTHY
    recorded = state.load(tmp_path / "raylab")
    assert recorded is not None
    assert recorded.left_out == ()
    runtime.start_left_out()
    assert machine.services("spawn") == [*TRAINS, JUPYTER], "there is nothing left to start"


def test_what_an_up_has_started_meanwhile_is_not_started_twice(
    machine: Machine, runtime: LocalRuntime, packages: Packages, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(group: str) -> bool:
        monkeypatch.setattr(environment, "ensure", packages.ensure)
        runtime.up(SPEC)  # in another shell, while this one installs
        return packages.ensure(group)

    monkeypatch.setattr(environment, "ensure", slowly)
    runtime.start_left_out()
    assert machine.services("spawn") == [*TRAINS, JUPYTER]


def test_packages_that_cannot_be_installed_leave_the_lab_as_it_was(
    machine: Machine, runtime: LocalRuntime, packages: Packages
) -> None:
    packages.broken = "jupyter"
    with pytest.raises(SetupError):
        runtime.start_left_out()

    assert machine.services("spawn") == TRAINS
    assert runtime.status().healthy
    packages.broken = ""
    runtime.start_left_out()
    assert machine.services("spawn") == [*TRAINS, JUPYTER]


def test_one_that_runs_is_not_left_out_of_a_lab_that_is_booted_again(
    machine: Machine, runtime: LocalRuntime, packages: Packages
) -> None:
    runtime.up(SPEC)
    packages.there.discard("jupyter")
    assert runtime.up_to_train(SPEC).service(JUPYTER) is not None
    assert machine.services("spawn") == [*TRAINS, JUPYTER]


def test_a_service_that_was_left_out_has_no_log(runtime: LocalRuntime) -> None:
    with pytest.raises(NotFoundError):
        list(runtime.logs(JUPYTER))


def test_down_takes_a_lab_down_from_which_something_was_left_out(
    machine: Machine, runtime: LocalRuntime
) -> None:
    assert set(runtime.down()) == set(TRAINS)
    assert not machine.running
    runtime.up(SPEC)
    assert machine.services("spawn") == [*TRAINS, STORE, QUEUE, JUPYTER, HEAD, worker(0), worker(1)]
