"""Which runtime is chosen, and what is said about it."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from lab.errors import EngineError, RefusedError, StateError, UsageError
from lab.lab import Lab
from lab.runtime.local import processes
from lab.runtime.local import state as local_state
from lab.runtime.local.processes import Identity, boot_id, start_time
from lab.runtime.select import Choice, choose
from lab.topology import GpuPlan, LabSpec, Vendor
from tests.unit.runtime.compose.fake_docker import FakeDocker, lab_state

LAB = "other"


@pytest.fixture
def docker() -> FakeDocker:
    return FakeDocker()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / LAB


def chosen(kind: str, folder: Path, docker: FakeDocker, *, missing: str = "", fetch: bool = False) -> Choice:
    return choose(
        kind,
        LAB,
        folder=folder,
        engine=docker.engine(),
        missing_image=lambda: missing,
        can_fetch=lambda: fetch,
    )


def up_locally(folder: Path, gpu: GpuPlan | None = None) -> None:
    me = psutil.Process()
    began = start_time(me.pid)
    leader = Identity(me.pid, began, began)
    ports = dict.fromkeys(local_state.PORTS, 1)
    spec = LabSpec(LAB, gpu or GpuPlan(Vendor.NONE))
    made = local_state.LabState(spec, ports, psutil.boot_time(), boot_id(), "moto", leaders={"minio": leader})
    local_state.save(folder, made)


@pytest.mark.parametrize("content", [None, "", "{"])
def test_a_lab_of_processes_is_found_without_its_state_file(
    folder: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    up_locally(folder)
    path = folder / local_state.FILE
    path.unlink() if content is None else path.write_text(content)
    marked = {folder}
    monkeypatch.setattr(processes, "services_of", lambda of: {"minio"} if of in marked else set())

    assert chosen("auto", folder, docker).why == "auto: the lab is up as plain processes"
    with pytest.raises(RefusedError, match="on the local runtime"):
        chosen("compose", folder, docker)
    marked.clear()
    assert chosen("auto", folder, docker).kind == "compose"
    assert chosen("compose", folder, docker).kind == "compose"


@pytest.mark.parametrize("content", [None, "", "{"])
def test_a_lab_of_containers_is_found_without_its_state_file(
    folder: Path, docker: FakeDocker, content: str | None
) -> None:
    lab_state(folder, LAB)
    docker.add(LAB, folder, "minio")
    path = folder / "compose.json"
    path.unlink() if content is None else path.write_text(content)

    choice = chosen("auto", folder, docker, missing="raylab/ray:2")
    assert choice.kind == "compose"
    with pytest.raises(StateError, match="but lab other runs: minio"):
        choice.view.status()
    if content is not None:
        with pytest.raises(RefusedError, match="on the compose runtime"):
            chosen("local", folder, docker)


@pytest.mark.parametrize("kind", ["local", "compose"])
def test_the_runtime_that_is_asked_for_is_taken(kind: str, folder: Path, docker: FakeDocker) -> None:
    choice = chosen(kind, folder, docker)

    assert (choice.kind, choice.view.kind, choice.view.lab) == (kind, kind, LAB)
    assert choice.why == "asked for"


def test_containers_are_taken_where_docker_answers_and_the_images_are_here(
    folder: Path, docker: FakeDocker
) -> None:
    choice = chosen("auto", folder, docker)

    assert (choice.kind, choice.why) == ("compose", "auto: Docker can run the lab")


def test_without_docker_the_lab_runs_as_processes_and_the_reason_is_said(
    folder: Path, docker: FakeDocker
) -> None:
    docker.down = True

    choice = chosen("auto", folder, docker)

    assert (choice.kind, choice.why) == ("local", "auto: the Docker Engine is not running")


@pytest.mark.parametrize(("fetch", "kind"), [(False, "local"), (True, "compose")])
def test_images_that_are_missing_must_be_obtainable(
    folder: Path, docker: FakeDocker, fetch: bool, kind: str
) -> None:
    choice = chosen("auto", folder, docker, missing="raylab/ray:1", fetch=fetch)

    assert choice.kind == kind
    assert fetch or "the image raylab/ray:1 is not here and no registry answers" in choice.why


def test_a_lab_that_is_up_as_processes_stays_there(folder: Path, docker: FakeDocker) -> None:
    up_locally(folder)

    assert chosen("auto", folder, docker).why == "auto: the lab is up as plain processes"
    with pytest.raises(RefusedError, match="on the local runtime") as caught:
        chosen("compose", folder, docker)
    assert "--lab" in caught.value.hint


def test_a_lab_that_is_up_in_containers_stays_there(folder: Path, docker: FakeDocker) -> None:
    lab_state(folder, LAB)
    docker.add(LAB, folder, "minio")

    assert chosen("auto", folder, docker).why == "auto: the lab was started in containers"
    with pytest.raises(RefusedError, match="on the compose runtime"):
        chosen("local", folder, docker)


def test_a_lab_of_containers_stays_theirs_while_the_engine_does_not_answer(
    folder: Path, docker: FakeDocker
) -> None:
    lab_state(folder, LAB)
    docker.down = True

    assert chosen("auto", folder, docker).kind == "compose"


def test_nothing_is_chosen_in_place_of_containers_that_may_run(folder: Path, docker: FakeDocker) -> None:
    lab_state(folder, LAB)
    docker.busy = True

    with pytest.raises(EngineError, match="within 30 s"):
        chosen("local", folder, docker)


def test_objects_in_containers_are_not_called_deleted_by_the_other_runtime(
    folder: Path, docker: FakeDocker
) -> None:
    lab_state(folder, LAB)
    docker.down = True
    kept = sorted(path.name for path in folder.iterdir())

    with pytest.raises(RefusedError, match="in containers"):
        Lab(chosen("local", folder, docker).view).down(volumes=True)
    assert sorted(path.name for path in folder.iterdir()) == kept


def test_an_unknown_runtime_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="--runtime docker: unknown") as caught:
        choose("docker", "raylab")
    assert caught.value.hint == "known: auto, local, compose, class"
