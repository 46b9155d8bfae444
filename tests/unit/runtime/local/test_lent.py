"""Plain processes of a class that lends a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.host import environment
from lab.runtime import lent
from lab.runtime.lent import Loan
from lab.services import JUPYTER, worker
from tests.unit.runtime.local.machine import SPEC, Machine
from tests.unit.runtime.test_lent import is_lent


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "ensure", lambda _: False)


def test_a_worker_that_is_lent_is_none_of_the_class(machine: Machine, tmp_path: Path) -> None:
    is_lent(machine.runtime(tmp_path), SPEC)


def test_a_lab_without_it_is_taken_down_as_any(machine: Machine, tmp_path: Path) -> None:
    runtime = machine.runtime(tmp_path)
    runtime.up(SPEC)
    runtime.stop(worker(1))
    lent.write(runtime.folder(), [Loan("ann", "raylab-ann", (worker(1),))])
    assert worker(1) not in runtime.down()
    assert not runtime.status().up


def test_jupyterlab_works_on_the_labs_own_copy(machine: Machine, tmp_path: Path) -> None:
    runtime = machine.runtime(tmp_path)
    own = runtime.folder() / "workspace"
    own.mkdir(parents=True)
    runtime.up(SPEC)
    command = runtime._plan(runtime._up()).command(JUPYTER)
    assert (command.cwd, command.environment["RAYLAB_WORKSPACE"]) == (own, str(own))
    assert f"--ServerApp.root_dir={own}" in command.argv
