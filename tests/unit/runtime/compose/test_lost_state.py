"""A lab of containers whose state file is damaged or gone: it is found by its labels, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import EngineError, LabDownError, StateError
from lab.runtime.compose import state
from lab.services import HEAD, JUPYTER, METRICS, PROMETHEUS, QUEUE, STORE, worker
from tests.unit.runtime.compose.fake_docker import FakeDocker, spec
from tests.unit.runtime.damages import check_down, check_refused, damages

ALL = {STORE, HEAD, QUEUE, JUPYTER, METRICS, PROMETHEUS, worker(0), worker(1)}

DAMAGES = damages("raylab-compose/2")


@pytest.fixture
def docker() -> FakeDocker:
    return FakeDocker()


@pytest.fixture
def folder(docker: FakeDocker, tmp_path: Path) -> Path:
    """The folder of a lab that is up, beside another one."""
    docker.runtime(tmp_path / "other", "other").up(spec("other"))
    docker.runtime(tmp_path / "lab").up(spec())
    return tmp_path / "lab"


@pytest.mark.parametrize("alive", [ALL, {STORE}, {worker(1), JUPYTER}], ids=len)
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_runs_is_named_left_alone_and_ended_by_down(
    docker: FakeDocker, folder: Path, damage: str, alive: set[str]
) -> None:
    act, said = DAMAGES[damage]
    path = folder / state.FILE
    for service in ALL - alive:
        docker.change(docker.find(service).id, state="exited")
    act(path)
    docker.journal.clear()
    before = dict(docker.containers)

    check_refused(docker.runtime(folder), spec(), path, said, alive)
    with pytest.raises(StateError):
        docker.runtime(folder).prepare(spec())
    assert (docker.containers, docker.journal) == (before, [])

    assert set(docker.runtime(folder).down()) == alive
    assert {owner for owner, _ in docker.containers} == {"raylab-other"}
    assert docker.runtime(folder.parent / "other", "other").status().healthy
    assert "raylab-lab_objects" in docker.volumes
    assert not docker.runtime(folder).status().up
    assert docker.runtime(folder).up(spec()).healthy


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name != "the whole folder"])
def test_where_nothing_runs_the_lab_is_down_and_up_starts_it_anew(
    docker: FakeDocker, folder: Path, damage: str
) -> None:
    act, said = DAMAGES[damage]
    for service in ALL:
        docker.change(docker.find(service).id, state="exited")
    act(folder / state.FILE)
    check_down(docker.runtime(folder), spec(), damage, said)


@pytest.mark.parametrize("damage", ["truncated", "deleted"])
def test_an_engine_that_does_not_answer_is_named_where_a_file_says_that_there_was_a_lab(
    docker: FakeDocker, folder: Path, damage: str
) -> None:
    DAMAGES[damage][0](folder / state.FILE)
    docker.down = True
    runtime = docker.runtime(folder)

    assert runtime.status().notes == (
        () if damage == "deleted" else ("the Docker Engine is not running; start it",)
    )
    with pytest.raises(LabDownError if damage == "deleted" else EngineError):
        runtime.spec()
    with pytest.raises(EngineError):
        runtime.up(spec())


def test_a_project_of_that_name_that_is_somebody_elses_is_no_lost_lab(
    docker: FakeDocker, tmp_path: Path
) -> None:
    docker.add("lab", tmp_path / "elsewhere", STORE)

    assert not docker.runtime(tmp_path / "lab").status().up
    with pytest.raises(LabDownError):
        docker.runtime(tmp_path / "lab").spec()
