"""The folder below /tmp: used only when it is this user's alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.errors import ServiceError, SetupError
from lab.runtime.local import state, temporary
from lab.runtime.local.state import FILE
from lab.services import HEAD
from tests.unit.runtime.local.machine import SPEC, Machine


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "raylab-1000" / "1a2b3c4d"


def test_both_folders_are_made_for_their_owner_only_and_again_is_no_error(folder: Path) -> None:
    previous = os.umask(0)
    try:
        for _ in range(2):
            temporary.make(folder)
    finally:
        os.umask(previous)

    assert {oct(path.stat().st_mode & 0o777) for path in (folder, folder.parent)} == {"0o700"}


def test_what_ray_opened_to_everybody_is_used_and_removed_and_nobody_else_gets_there(folder: Path) -> None:
    temporary.make(folder)
    folder.chmod(0o777)
    folder.parent.chmod(0o755)

    temporary.make(folder)
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    temporary.remove(folder)
    assert not folder.exists()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_a_parent_that_others_can_write_is_refused(folder: Path, mode: int) -> None:
    temporary.make(folder)
    chosen = folder.parent
    chosen.chmod(mode)

    with pytest.raises(SetupError, match=f"{chosen.name}, .*others .mode {mode:o}.") as caught:
        temporary.make(folder)
    assert str(chosen) in caught.value.hint
    chosen.chmod(0o700)


@pytest.mark.parametrize("name", ["parent", "folder"])
def test_a_folder_of_another_user_is_refused(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary.make(folder)
    chosen = folder if name == "folder" else folder.parent
    real = os.lstat

    def lstat(path: Path) -> os.stat_result:
        values = list(real(path))
        values[4] += 1 if path == chosen else 0  # the owner
        return os.stat_result(values)

    monkeypatch.setattr(os, "lstat", lstat)

    with pytest.raises(SetupError, match=rf"{chosen.name}, .* user \(uid {os.getuid() + 1}\)"):
        temporary.make(folder)


@pytest.mark.parametrize("name", ["parent", "folder"])
def test_a_link_is_refused_and_nothing_behind_it_is_removed(folder: Path, name: str, tmp_path: Path) -> None:
    target = tmp_path / "precious" / "1a2b3c4d"
    target.mkdir(parents=True)
    if name == "folder":
        folder.parent.mkdir(mode=0o700)
        folder.symlink_to(target)
    else:
        folder.parent.symlink_to(target.parent)

    with pytest.raises(SetupError, match="link to somewhere else"):
        temporary.make(folder)
    temporary.remove(folder)
    assert target.is_dir()


def test_a_file_in_its_place_is_refused(folder: Path) -> None:
    folder.parent.mkdir(mode=0o700)
    folder.write_text("")

    with pytest.raises(SetupError, match="is not a folder"):
        temporary.make(folder)


def test_what_cannot_be_made_is_a_setup_error(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"cannot make .*: No such"):
        temporary.make(tmp_path / "missing" / "raylab-1" / "x")


def test_removing_takes_all_of_it_and_nothing_is_no_error(folder: Path) -> None:
    temporary.make(folder)
    (folder / "session").mkdir()

    for _ in range(2):
        temporary.remove(folder)
    assert not folder.exists()
    assert folder.parent.exists()


def test_a_lab_is_not_started_in_a_trap(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "ray-raylab").symlink_to(tmp_path)

    with pytest.raises(SetupError, match="link to somewhere else"):
        machine.runtime(tmp_path).up(SPEC)
    assert not machine.running
    assert not (tmp_path / "raylab" / FILE).exists()


# The folder of temporary files


def test_services_put_temporary_files_where_down_removes_them(machine: Machine, tmp_path: Path) -> None:
    runtime = machine.runtime(tmp_path)
    runtime.up(SPEC)
    current = state.load(tmp_path / "raylab")
    assert current is not None
    plan = runtime._plan(current)
    scratch = runtime._layout.scratch
    assert {plan.command(name).environment["TMPDIR"] for name in (*current.leaders, "jupyter")} == {
        str(scratch)
    }
    assert scratch.stat().st_mode & 0o777 == 0o700
    (scratch / "pymp-g2hatrbf").mkdir()
    runtime.down()
    assert not scratch.exists()


def test_what_a_lab_that_died_has_left_is_gone_before_the_next(machine: Machine, tmp_path: Path) -> None:
    left = machine.runtime(tmp_path)._layout.scratch / "checkpoint_tmp_1"
    left.mkdir(parents=True)
    machine.runtime(tmp_path).up(SPEC)
    assert not left.exists()


def test_a_repair_leaves_temporary_files_of_what_runs(machine: Machine, tmp_path: Path) -> None:
    machine.runtime(tmp_path).up(SPEC)
    kept = machine.runtime(tmp_path)._layout.scratch / "in-use"
    kept.touch()
    machine.die(HEAD)
    machine.runtime(tmp_path).up(SPEC)
    assert kept.exists()


def test_a_boot_that_fails_leaves_no_temporary_files(machine: Machine, tmp_path: Path) -> None:
    machine.dies.add(HEAD)
    with pytest.raises(ServiceError):
        machine.runtime(tmp_path).up(SPEC)
    assert not machine.runtime(tmp_path)._layout.scratch.exists()


@pytest.mark.parametrize("there", ["/elsewhere", ""])
def test_down_finds_the_folder_of_an_up_with_another_tmpdir(
    machine: Machine, tmp_path: Path, there: str
) -> None:
    usual = machine.runtime(tmp_path)._layout.scratch
    other = tmp_path / "other" / usual.parent.name / usual.name
    kept = str(other) if there else ""
    assert temporary.same(kept, usual) == (other if there else usual)


@pytest.mark.parametrize("kept", ["/home/me/thesis", ".", "..", "raylab-0/1a2b-tmp", "/"])
def test_a_state_file_that_names_another_folder_costs_nobody_his_files(kept: str) -> None:
    usual = Path("/tmp/raylab-0/1a2b-tmp")
    assert temporary.same(kept, usual) == usual


def test_a_tmpdir_whose_path_is_too_long_for_sockets_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for base, taken in (("/scratch", True), (f"/{'x' * 60}", False)):
        monkeypatch.setattr("tempfile.tempdir", base)
        assert str(temporary.of_lab("1a2b3c4d")[1]).startswith(base) == taken
    assert temporary.of_lab("1a2b3c4d")[1].parent.parent == Path("/tmp")
