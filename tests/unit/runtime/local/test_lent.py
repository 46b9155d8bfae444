"""Plain processes of a class that lends a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import RefusedError
from lab.host import environment
from lab.lab import Lab
from lab.people.registry import FOLDER
from lab.runtime import lent, select, statefile
from lab.runtime.lent import Loan
from lab.runtime.local import processes
from lab.services import JUPYTER, worker
from lab.topology import Progress
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


LOANS = [Loan(person, f"raylab-{person}", (worker(number),)) for number, person in enumerate(("ann", "ben"))]


@pytest.fixture
def klass(machine: Machine, raylab_home: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A class that lends its workers to the labs of two people, which are up."""
    monkeypatch.setenv("XDG_STATE_HOME", str(raylab_home.parent))
    monkeypatch.setattr(select, "_local", lambda lab, folder: machine.runtime(folder.parent, lab))
    klass = Lab("local", name="raylab")
    for name in (klass.name, *(loan.lab for loan in LOANS)):
        machine.runtime(raylab_home, name).up(SPEC)
    lent.write(klass.runtime.folder(), [*LOANS, Loan("cleo", "raylab-cleo")])
    machine.journal.clear()
    return klass


def test_labs_end_with_the_class(machine: Machine, klass: Lab) -> None:
    steps: list[Progress] = []
    klass.down(on_progress=steps.append)
    assert [step.service for step in steps if step.service.startswith("raylab")] == [one.lab for one in LOANS]
    ended = (*(Loan(one.person, one.lab) for one in LOANS), Loan("cleo", "raylab-cleo"))
    assert lent.read(klass.runtime.folder()) == ended
    assert not machine.running


def test_without_a_list_that_can_be_read_none_is_known(machine: Machine, klass: Lab) -> None:
    path = klass.runtime.folder() / FOLDER / lent.FILE
    path.write_text("{")
    assert klass.down()
    assert path.read_text() == "{"
    assert {process.mark.rpartition("/")[2].partition(":")[0] for process in machine.running.values()} == {
        one.lab for one in LOANS
    }


@pytest.mark.parametrize("of", ["raylab", "raylab-ben"])
def test_a_down_that_is_refused_ends_no_lab(
    machine: Machine, klass: Lab, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    monkeypatch.setenv(processes.MARK, f"{klass.runtime.folder().parent / of}:{JUPYTER}")
    with pytest.raises(RefusedError, match=f"in lab {of} and"):
        klass.down()
    assert machine.journal == []
    assert set(LOANS) < set(lent.read(klass.runtime.folder()))


def test_nor_does_one_that_would_forget_objects(machine: Machine, klass: Lab) -> None:
    (klass.runtime.folder() / statefile.COMPOSE_FILE).write_text("{}")
    with pytest.raises(RefusedError, match="which hold its objects"):
        klass.down(volumes=True)
    assert machine.journal == []


def test_jupyterlab_works_on_the_labs_own_copy(machine: Machine, tmp_path: Path) -> None:
    runtime = machine.runtime(tmp_path)
    own = runtime.folder() / "workspace"
    own.mkdir(parents=True)
    runtime.up(SPEC)
    command = runtime._plan(runtime._up()).command(JUPYTER)
    assert (command.cwd, command.environment["RAYLAB_WORKSPACE"]) == (own, str(own))
    assert f"--ServerApp.root_dir={own}" in command.argv
