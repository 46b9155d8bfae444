"""Workers that a class lends: neither its runtime nor its leases have them meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import GpuError, StateError
from lab.host.files import make_private
from lab.host.gpus import GpuHolder
from lab.lab import Lab
from lab.people.registry import FOLDER
from lab.runtime import leases, lent, select
from lab.runtime.base import Runtime
from lab.runtime.compose import project
from lab.runtime.lent import Loan
from lab.services import worker
from lab.topology import GpuPlan, LabSpec
from tests.fakes import FakeHost, FakeRuntime
from tests.unit.runtime.compose.fake_docker import lab_state
from tests.unit.runtime.test_leases import GPUS, plan

ANN = Loan("ann", "raylab-ann", (worker(1),), "ann/ann-lab-1")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raylab_home: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_the_list_is_kept_and_read(tmp_path: Path) -> None:
    assert lent.read(tmp_path) == ()
    ended = Loan("ben", "raylab-ben")
    lent.write(tmp_path, [ended, ANN])
    assert lent.read(tmp_path) == (ANN, ended)
    assert lent.without(tmp_path, [worker(0), worker(1)]) == (worker(0),)
    assert lent.notes(tmp_path) == ("lent to ann's own lab raylab-ann: ray-worker-1",)


@pytest.mark.parametrize(
    "text", ["{", '{"schema": "raylab-own-labs/2", "labs": []}', '{"schema": 1, "labs": []}']
)
def test_a_damaged_list_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / FOLDER / lent.FILE
    make_private(path.parent)
    path.write_text(text)
    with pytest.raises(StateError, match=str(path)):
        lent.read(tmp_path)


def is_lent(runtime: Runtime, spec: LabSpec) -> None:
    """Check that a worker of this runtime can be lent, and comes back."""
    runtime.up(spec)
    runtime.stop(worker(1))
    lent.write(runtime.folder(), [ANN])
    status = runtime.up(spec)
    assert (status.healthy, status.service(worker(1))) == (True, None)
    assert any("lent to ann's own lab" in note for note in status.notes)
    lent.write(runtime.folder(), [])
    assert not runtime.status().healthy
    runtime.start(worker(1))
    assert runtime.status().healthy


def test_a_lent_gpu_is_the_other_labs_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost()
    one, two, three = (FakeRuntime(name, host) for name in ("one", "two", "three"))
    both, last = plan(*GPUS[:2]), GpuPlan(plan().vendor, plan(GPUS[1]).assignments)
    monkeypatch.setattr(select, "started", lambda lab, _: FakeRuntime(lab, host))
    Lab(one).up(LabSpec("one", gpu=both))
    with pytest.raises(GpuError, match="held by lab one"):
        Lab(two).up(LabSpec("two", gpu=last, workers=1))
    lent.write(one.folder(), [Loan("ann", "two", (worker(1),))])
    Lab(two).up(LabSpec("two", gpu=last, workers=1))
    Lab(one).up(LabSpec("one", gpu=both))  # a repair takes nothing of hers
    assert {gpu: holder.lab for gpu, holder in leases.holders().items()} == {GPUS[0]: "one", GPUS[1]: "two"}
    with pytest.raises(GpuError, match="held by lab two"):
        Lab(three).up(LabSpec("three", gpu=last, workers=1))
    Lab(two).down()
    lent.write(one.folder(), [])
    with leases.taken(one, last):
        pass
    assert leases.holders()[GPUS[1]] == GpuHolder("one", str(one.folder()))


def test_her_jupyterlab_works_on_a_copy_of_its_own(tmp_path: Path) -> None:
    current, user = lab_state(tmp_path / "lab"), (1000, 1000)
    others = {"LAB_WORKSPACE": str(tmp_path)}
    assert project.env(current, tmp_path / "lab", user, others)["LAB_WORKSPACE"] == str(tmp_path)
    (tmp_path / "lab" / "workspace").mkdir(parents=True)
    own = project.env(current, tmp_path / "lab", user, others)["LAB_WORKSPACE"]
    assert own == str(tmp_path / "lab" / "workspace")
