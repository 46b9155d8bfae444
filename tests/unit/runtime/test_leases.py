"""Two labs never get the same GPU: leases by file, whatever became of the labs that hold them."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from lab.errors import GpuError, SetupError
from lab.host.files import take_lock
from lab.host.gpus import GpuHolder
from lab.lab import Lab
from lab.runtime import leases, select
from lab.runtime.compose.runtime import ComposeRuntime
from lab.runtime.local import state as local_state
from lab.services import worker
from lab.topology import GpuAssignment, GpuPlan, LabSpec, Vendor
from tests.fakes import FakeHost, FakeRuntime
from tests.fakes.host import FakeClock
from tests.unit.runtime.compose.fake_docker import FakeDocker, lab_state
from tests.unit.runtime.test_select import up_locally

GPUS = tuple(f"GPU-5c0d9f13-9bb2-4a77-0d5b-1f6b6e3a0a0{i}" for i in range(3))
SLICE = "MIG-GPU-5c0d9f13-9bb2-4a77-0d5b-1f6b6e3a0a00/1/0"
"""The UUID of a slice as drivers before 470 write it."""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raylab_home: Path) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


def plan(*gpus: str) -> GpuPlan:
    assignments = tuple(GpuAssignment(f"ray-worker-{i}", gpu, "H200") for i, gpu in enumerate(gpus))
    return GpuPlan(Vendor.NVIDIA, assignments)


def amd(minor: int) -> GpuPlan:
    """HIP gives the index 0 to the only GPU that a process sees: it says nothing of which one that is."""
    nodes = ("/dev/kfd", f"/dev/dri/renderD{minor}")
    return GpuPlan(Vendor.AMD, (GpuAssignment("ray-worker-0", "0", "gfx942", nodes),))


def runs(*labs: FakeRuntime) -> leases.Devices:
    """Answers as if these labs ran with every GPU."""
    return lambda holder: None if holder.folder in {str(lab.folder()) for lab in labs} else ()


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def one(host: FakeHost) -> FakeRuntime:
    return FakeRuntime("one", host)


@pytest.fixture
def two(host: FakeHost) -> FakeRuntime:
    return FakeRuntime("two", host)


def take(runtime: FakeRuntime, gpus: GpuPlan, *running: FakeRuntime) -> None:
    with leases.taken(runtime, gpus, devices=runs(*running), clock=FakeClock()):
        pass


@pytest.mark.parametrize(
    ("held", "wanted"),
    [(plan(*GPUS[:2]), plan(*GPUS[1:])), (plan(SLICE), plan(SLICE)), (amd(128), amd(128))],
    ids=["one of two", "a slice", "AMD"],
)
def test_a_gpu_of_a_lab_that_runs_is_refused_with_the_labs_name_and_what_frees_it(
    one: FakeRuntime, two: FakeRuntime, held: GpuPlan, wanted: GpuPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYLAB_HOME", str(one.folder().parent))
    take(one, held)
    with pytest.raises(GpuError) as caught:
        take(two, wanted, one)
    device = next(a.device for a in wanted.assignments if a.device in held.devices)
    assert caught.value.message == f"GPU {device} is held by lab one"
    assert caught.value.hint.startswith("`labctl down --lab one` frees it; or name another")


def test_a_lab_of_another_home_is_named_with_it(one: FakeRuntime, two: FakeRuntime) -> None:
    take(one, plan(GPUS[0]))
    with pytest.raises(GpuError) as caught:
        take(two, plan(GPUS[0]), one)
    home = one.folder().parent
    assert caught.value.message == f"GPU {GPUS[0]} is held by lab one of {home}"
    assert caught.value.hint.startswith(f"`RAYLAB_HOME={home} labctl down --lab one` frees it")


def test_other_gpus_can_be_taken(one: FakeRuntime, two: FakeRuntime) -> None:
    take(one, plan(GPUS[0]))
    take(two, plan(GPUS[1]), one)
    take(FakeRuntime("three", one.host), amd(128), one, two)
    take(FakeRuntime("four", one.host), amd(129), one, two)


def test_a_lab_may_take_its_own_gpus_again(one: FakeRuntime) -> None:
    take(one, plan(GPUS[0]))
    take(one, plan(*GPUS[:2]), one)
    assert set(leases.holders(devices=runs(one))) == set(GPUS[:2])
    assert leases.held_by_others(one, devices=runs(one)) == {}


def test_two_workers_of_one_lab_may_share_its_gpu(one: FakeRuntime) -> None:
    take(one, plan(GPUS[0], GPUS[0]))
    assert list(leases.holders(devices=runs(one))) == [GPUS[0]]


def test_what_a_lab_left_that_is_gone_keeps_nobody_from_its_gpu(one: FakeRuntime, two: FakeRuntime) -> None:
    take(one, plan(GPUS[0]))
    assert leases.holders(devices=runs()) == {}
    take(two, plan(GPUS[0]))
    assert leases.holders(devices=runs(one, two))[GPUS[0]].lab == "two"


def test_a_lab_that_starts_holds_its_gpus_though_nothing_of_it_runs_yet(
    one: FakeRuntime, two: FakeRuntime
) -> None:
    with leases.taken(one, plan(GPUS[0]), devices=runs(), clock=FakeClock()):
        assert leases.held_by_others(two, devices=runs())[GPUS[0]].lab == "one"
        with pytest.raises(GpuError, match="is held by lab one"):
            take(two, plan(GPUS[0]))
        take(one, plan(GPUS[0]))  # another `up` of the same lab waits for its turn at the lab
    take(two, plan(GPUS[0]))


def test_a_labctl_that_was_killed_while_it_started_a_lab_holds_nothing(
    one: FakeRuntime, two: FakeRuntime
) -> None:
    take(one, plan(GPUS[0]))
    (path,) = Path(leases._folder()).glob("*.json")
    code = (
        "import sys, time; from pathlib import Path; from lab.host.files import take_lock;"
        " held = take_lock(Path(sys.argv[1])); print('held', flush=True); time.sleep(600)"
    )
    labctl = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    with labctl:
        assert labctl.stdout is not None
        labctl.stdout.readline()
        with pytest.raises(GpuError, match="is held by lab one"):
            take(two, plan(GPUS[0]))
        labctl.kill()
    take(two, plan(GPUS[0]))


def test_who_looks_at_a_lease_is_not_taken_for_a_lab_that_starts(one: FakeRuntime) -> None:
    take(one, plan(GPUS[0]))
    (path,) = Path(leases._folder()).glob("*.json")
    with take_lock(path, shared=True):
        assert leases.holders(devices=runs()) == {}
    with take_lock(path):
        assert set(leases.holders(devices=runs())) == {GPUS[0]}


def test_of_two_labs_that_start_at_the_same_instant_one_has_both_gpus_and_the_other_neither(
    one: FakeRuntime, two: FakeRuntime
) -> None:
    """Plans in opposite orders, over and over: nobody waits for the other for ever."""
    together = Barrier(2, timeout=60)

    def start(runtime: FakeRuntime, gpus: GpuPlan) -> bool:
        together.wait()
        try:
            with leases.taken(runtime, gpus, devices=runs(), clock=FakeClock()):
                together.wait()  # until the other one has been refused
        except GpuError:
            together.wait()
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            starts = [pool.submit(start, one, plan(*GPUS)), pool.submit(start, two, plan(*reversed(GPUS)))]
            assert sorted(start.result() for start in starts) == [False, True]


def test_no_gpu_is_kept_when_one_of_them_is_refused(one: FakeRuntime, two: FakeRuntime) -> None:
    take(one, plan(GPUS[1]))
    with pytest.raises(GpuError):
        take(two, plan(*GPUS), one)
    take(FakeRuntime("three", one.host), plan(GPUS[0]), one)


def test_a_lab_is_asked_once_whatever_it_holds(one: FakeRuntime) -> None:
    asked: list[GpuHolder] = []

    def devices(holder: GpuHolder) -> tuple[str, ...]:
        asked.append(holder)
        return GPUS

    take(one, plan(*GPUS))
    assert set(leases.holders(devices=devices)) == set(GPUS)
    assert len(asked) == 1


@pytest.mark.parametrize("content", ["", "{", "[]", '{"lab": 3, "folder": "x"}', '{"lab": "one"}'])
def test_a_damaged_lease_holds_nothing(two: FakeRuntime, content: str) -> None:
    take(two, plan(GPUS[0]))
    (path,) = Path(leases._folder()).glob("*.json")
    path.write_text(content)
    assert leases.holders(devices=runs(two)) == {}
    take(two, plan(GPUS[0]))
    assert leases.holders(devices=runs(two))[GPUS[0]].lab == "two"


def test_where_no_lease_can_be_written_nothing_starts(one: FakeRuntime, state: Path) -> None:
    state.write_text("a file in the place of the folder")
    with pytest.raises(SetupError, match="cannot"):
        take(one, plan(GPUS[0]))
    take(one, GpuPlan(Vendor.SIMULATED, (GpuAssignment("ray-worker-0"),)))


def test_up_takes_the_gpus_and_down_frees_them(
    one: FakeRuntime, two: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.runtime.select.started", lambda name, folder: {"one": one, "two": two}[name])
    Lab(one).up(LabSpec("one", plan(GPUS[0]), workers=1))
    for start in (Lab(two).up, Lab(two).up_to_train):
        with pytest.raises(GpuError, match="held by lab one"):
            start(LabSpec("two", plan(GPUS[0]), workers=1))
    assert not two.status().up
    Lab(one).down()
    assert not list(Path(leases._folder()).iterdir())
    assert Lab(two).up(LabSpec("two", plan(GPUS[0]), workers=1)).healthy


def test_a_lab_that_fails_to_start_frees_its_gpus(one: FakeRuntime, two: FakeRuntime) -> None:
    with contextlib.suppress(ZeroDivisionError), leases.taken(one, plan(GPUS[0]), clock=FakeClock()):
        raise ZeroDivisionError
    take(two, plan(GPUS[0]))


# Whether a lab runs, asked of the runtime that it was started on


def holder(folder: Path) -> GpuHolder:
    return GpuHolder(folder.name, str(folder))


@pytest.fixture
def docker() -> FakeDocker:
    return FakeDocker()


@pytest.fixture
def in_containers(docker: FakeDocker, tmp_path: Path) -> ComposeRuntime:
    """A lab of containers that is up on a GPU."""
    runtime = docker.runtime(tmp_path / "lab")
    runtime.up(LabSpec("lab", plan(GPUS[0]), workers=1))
    return runtime


def held_by(folder: Path, docker: FakeDocker) -> Collection[str] | None:
    return leases.devices_of(holder(folder), partial(select.started, engine=docker.engine()))


def test_a_lab_of_containers_holds_the_gpus_of_its_settings(
    in_containers: ComposeRuntime, docker: FakeDocker
) -> None:
    assert held_by(in_containers.folder(), docker) == (GPUS[0],)
    docker.change(docker.find(worker(0)).id, state="exited")
    assert held_by(in_containers.folder(), docker) == (GPUS[0],), "a worker is down, the lab is not"


def test_a_lab_whose_containers_were_all_killed_holds_none(
    in_containers: ComposeRuntime, docker: FakeDocker
) -> None:
    for container in list(docker.containers.values()):
        docker.change(container.id, state="exited")
    assert held_by(in_containers.folder(), docker) == ()


def test_a_lab_of_containers_holds_none_after_a_reboot_while_the_engine_is_not_started(
    in_containers: ComposeRuntime, docker: FakeDocker
) -> None:
    docker.down = True
    assert held_by(in_containers.folder(), docker) == ()


def test_a_lab_of_containers_whose_engine_does_not_answer_in_time_may_run_and_holds_whatever_it_took(
    in_containers: ComposeRuntime, docker: FakeDocker, tmp_path: Path
) -> None:
    docker.busy = True
    assert held_by(in_containers.folder(), docker) is None
    assert held_by(tmp_path / "of processes", docker) == ()


@pytest.mark.parametrize("lost", ["compose.json", "the folder"])
def test_a_lab_that_runs_and_has_lost_its_state_holds_its_gpus_until_down(
    in_containers: ComposeRuntime, docker: FakeDocker, lost: str
) -> None:
    folder = in_containers.folder()
    take_it = leases.taken(in_containers, plan(GPUS[0]), devices=lambda holder: (), clock=FakeClock())
    with take_it:
        pass
    shutil.rmtree(folder) if lost == "the folder" else (folder / lost).unlink()
    assert held_by(in_containers.folder(), docker) is None
    Lab(docker.runtime(folder)).down()
    assert not list(Path(leases._folder()).iterdir())
    assert held_by(in_containers.folder(), docker) == ()


@pytest.mark.parametrize("change", [{"booted_at": 1.0, "boot": "another"}, {"leaders": {}}])
def test_a_lab_of_processes_holds_none_after_a_reboot_or_when_all_were_killed(
    tmp_path: Path, docker: FakeDocker, change: dict[str, Any]
) -> None:
    folder = tmp_path / "other"
    up_locally(folder, plan(GPUS[0]))
    state = local_state.load(folder)
    assert state is not None
    local_state.save(folder, replace(state, **change))
    assert held_by(folder, docker) == ()


def test_a_lab_of_processes_that_runs_and_has_lost_its_state_holds_whatever_it_took(
    tmp_path: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "other"
    up_locally(folder, plan(GPUS[0]))
    (folder / local_state.FILE).unlink()
    monkeypatch.setattr("lab.runtime.local.processes.services_of", lambda folder: {"ray-head"})
    assert held_by(folder, docker) is None


def test_a_lab_of_processes_holds_the_gpus_of_its_settings(tmp_path: Path) -> None:
    folder = tmp_path / "other"
    up_locally(folder, plan(GPUS[0]))
    assert leases.devices_of(holder(folder)) == (GPUS[0],)


def test_a_lab_that_was_taken_down_or_deleted_holds_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")  # no Docker either
    assert leases.devices_of(holder(tmp_path / "other")) == ()
    lab_state(tmp_path / "other", "other")
    assert leases.devices_of(holder(tmp_path / "other")) == ()
