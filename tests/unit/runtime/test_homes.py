"""Homes of people on plain processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.errors import StateError
from lab.runtime.homes import Homes


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of homes; root works in it as somebody for whom what is read-only is read-only."""
    monkeypatch.chdir(tmp_path)
    root = os.geteuid() == 0
    if root:
        os.chown(tmp_path, 65534, -1)
        os.seteuid(65534)
    yield Path()
    if root:
        os.seteuid(0)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_all_of_a_home_is_deleted_and_what_was_left_of_it_before(folder: Path) -> None:
    for place in ("ada/go/pkg", "ada/closed", ".ada.removed/go", "ben/work", ".adam.removed-1"):
        (folder / place).mkdir(parents=True)
        (folder / place / "note").touch()
    (folder / "ada" / "link").symlink_to(Path("..", "ben"))
    (folder / "ben").chmod(0o500)
    for place, mode in (("ada/go/pkg", 0o555), ("ada/closed", 0), ("ada", 0o500), (".ada.removed/go", 0o555)):
        (folder / place).chmod(mode)
    Homes(folder).delete("ada")
    Homes(folder).delete("ada")  # nothing is hers any more
    assert names(folder) == [".adam.removed-1", "ben"]
    assert ((folder / "ben").stat().st_mode & 0o777, names(folder / "ben" / "work")) == (0o500, ["note"])


def test_what_cannot_be_deleted_is_an_error_again_and_again(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "note").touch()
    (folder / "ada").symlink_to("elsewhere")
    for _ in range(2):
        with pytest.raises(StateError, match=r"cannot delete \.ada\.removed-\d+: .*symbolic link"):
            Homes(folder).delete("ada")
    assert names(folder / "elsewhere") == ["note"]
