"""Folders, files and locks that outlive a command."""

from __future__ import annotations

import errno
import math
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from lab.errors import LabError, SetupError, UsageError
from lab.host import files
from tests.fakes.host import FakeClock


def test_home_is_what_the_variable_says_or_a_folder_of_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(files.HOME_VARIABLE, raising=False)
    assert files.home() == tmp_path / ".raylab"

    monkeypatch.setenv(files.HOME_VARIABLE, "~/labs")
    assert files.home() == tmp_path / "labs"

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(files.HOME_VARIABLE, "relative")
    assert files.home() == tmp_path / "relative"


@pytest.mark.parametrize("blank", ["", " "])
def test_a_home_that_is_set_to_nothing_is_not_the_users(monkeypatch: pytest.MonkeyPatch, blank: str) -> None:
    monkeypatch.setenv(files.HOME_VARIABLE, blank)
    with pytest.raises(UsageError, match="RAYLAB_HOME"):
        files.home()


def test_a_private_folder_is_for_its_owner_only(tmp_path: Path) -> None:
    folder = files.make_private(tmp_path / "a" / "b")

    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_folder_of_data_sets_is_for_everybody_in_a_private_place(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        folder = files.make_public(files.data_folder(tmp_path / "labs"))
    finally:
        os.umask(before)
    assert folder == tmp_path / "labs" / "data"
    assert (folder.stat().st_mode & 0o777, folder.parent.stat().st_mode & 0o777) == (0o755, 0o700)
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="cannot make") as caught:
        files.make_public(tmp_path / "file")
    assert "RAYLAB_HOME" in caught.value.hint


def test_a_folder_that_cannot_be_made_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(SetupError, match=f"{tmp_path / 'file'}") as caught:
        files.make_private(tmp_path / "file" / "lab")
    assert "RAYLAB_HOME" in caught.value.hint


def test_a_folder_without_write_permission_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)

    with pytest.raises(SetupError, match="Permission denied"):
        files.make_private(tmp_path)


def test_a_private_file_is_replaced_whole_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text("old")
    path.chmod(0o644)

    files.write_private(path, "new")

    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


def test_a_full_disk_leaves_the_old_content_and_no_litter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "state.json"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)

    with pytest.raises(SetupError, match="No space left on device"):
        files.write_private(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


def test_a_lock_is_held_by_one_at_a_time_and_freed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "lock"

    with (
        files.lock(path, "lab a"),
        pytest.raises(SetupError, match=r"process \d+.*busy with lab a"),
        files.lock(path, "lab a"),
    ):
        pytest.fail("two hold the lock")
    with files.lock(path, "lab a"):
        pass


def test_a_lock_is_freed_when_its_holder_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), files.lock(tmp_path / "lock", "lab a"):
        raise KeyboardInterrupt
    with files.lock(tmp_path / "lock", "lab a"):
        pass


def test_with_patience_a_lock_is_waited_for(tmp_path: Path) -> None:
    path, clock = tmp_path / "lock", FakeClock(0.0)
    first = ExitStack()
    first.enter_context(files.lock(path, "lab a"))
    clock.after(3.0, first.close)

    with files.lock(path, "lab a", patience=10, clock=clock):
        assert clock() == pytest.approx(3.0, abs=0.2)


def test_patience_ends(tmp_path: Path) -> None:
    path, clock = tmp_path / "lock", FakeClock(0.0)

    with (
        files.lock(path, "ports"),
        pytest.raises(SetupError, match="busy with ports"),
        files.lock(path, "ports", patience=1.0, clock=clock),
    ):
        pytest.fail("two hold the lock")
    assert clock() == pytest.approx(1.0)


def test_who_waits_for_a_lock_says_so_once_and_who_inherits_it_holds_it(tmp_path: Path) -> None:
    path, clock, said = tmp_path / "lock", FakeClock(0.0), list[str]()
    first = files.take_lock(path)
    inherited = os.dup(first.fileno())
    first.close()
    clock.after(2.0, lambda: os.close(inherited))

    with files.take_lock(path, timeout=math.inf, on_wait=lambda: said.append("waiting"), clock=clock):
        assert clock() == pytest.approx(2.0, abs=0.2)
    assert said == ["waiting"]


def test_a_lock_file_that_cannot_be_opened_is_a_setup_error(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()

    with pytest.raises(SetupError, match="Is a directory"), files.lock(tmp_path / "lock", "lab a"):
        pass


@pytest.mark.parametrize(
    ("chosen", "kind", "why"),
    [
        ("~nosuchuser/x", UsageError, "no such user"),
        ("/tmp/" + "a" * 300, SetupError, "File name too long"),
        ("/" + "a/" * 2500, SetupError, "File name too long"),
        ("/tmp/a\udcff", SetupError, "not a valid name in UTF-8"),
        ("/dev/null", SetupError, "Not a directory"),
        ("/dev/null/x", SetupError, "Not a directory"),
    ],
)
def test_a_home_that_cannot_be_is_refused(
    monkeypatch: pytest.MonkeyPatch, chosen: str, kind: type[LabError], why: str
) -> None:
    monkeypatch.setenv(files.HOME_VARIABLE, chosen)
    with pytest.raises(kind, match=why) as caught:
        files.home()
    assert files.HOME_VARIABLE in caught.value.hint


def test_a_folder_in_the_place_of_a_file_is_removed_as_well(tmp_path: Path) -> None:
    (tmp_path / "state.json" / "x").mkdir(parents=True)
    files.remove(tmp_path / "state.json")
    files.remove(tmp_path / "state.json")
    assert not list(tmp_path.iterdir())


def test_who_holds_a_lock_is_said_to_who_waits_for_it(tmp_path: Path) -> None:
    path, clock, said = tmp_path / "lock", FakeClock(0.0), list[str]()
    first = ExitStack()
    first.enter_context(files.lock(path, "starting ray-worker-0"))
    clock.after(3.0, first.close)

    with files.lock(path, "stopping lab a", patience=10, on_wait=said.append, clock=clock):
        assert said == [f"another labctl (process {os.getpid()}) is busy with starting ray-worker-0"]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"123"])
def test_a_lock_whose_holder_could_not_write_its_name_is_one_all_the_same(
    tmp_path: Path, content: bytes
) -> None:
    with files.take_lock(tmp_path / "lock") as held:
        held.write(content)
        held.flush()
        with pytest.raises(SetupError, match=r"^another labctl is busy$"), files.lock(tmp_path / "lock", "a"):
            pass


def test_a_lock_that_its_holder_deletes_is_not_held_by_two(tmp_path: Path) -> None:
    path, clock = tmp_path / "lock", FakeClock(0.0)
    first, third = ExitStack(), ExitStack()
    first.enter_context(files.lock(path, "deleting lab a"))

    def delete() -> None:
        path.unlink()
        first.close()
        third.enter_context(files.lock(path, "a third one"))

    clock.after(3.0, delete)
    clock.after(7.0, third.close)
    with files.lock(path, "waiting", patience=10, clock=clock):
        assert clock() == pytest.approx(7.0, abs=0.2)


def test_a_lock_is_had_although_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.write", full)
    with files.lock(tmp_path / "lock", "stopping lab a"):
        pass
