"""The workspace of an installed labctl: a copy below its home that newer versions bring up to date."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from lab.errors import SetupError
from lab.host import workspace as module
from lab.host.workspace import bring, changed, copy, workspace


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an installed labctl with one recipe, and an empty home."""
    root = tmp_path / "site-packages" / "raylab_labctl"
    (root / "workspace" / "digits").mkdir(parents=True)
    (root / "__init__.py").touch()
    (root / "workspace" / "digits" / "train.py").write_text("first")
    monkeypatch.setenv("RAYLAB_HOME", str(tmp_path / "home"))
    return root


def test_a_checkout_is_worked_on_where_it_lies(tmp_path: Path) -> None:
    assert workspace(tmp_path) == tmp_path / "workspace"


def test_an_installed_labctl_copies_it_to_its_home(package: Path, tmp_path: Path) -> None:
    place = workspace(package)
    assert place == tmp_path / "home" / "workspace"
    assert (place / "digits" / "train.py").read_text() == "first"
    assert changed(place) == ()


def test_a_newer_version_replaces_what_nobody_changed(package: Path) -> None:
    place = workspace(package)
    (package / "workspace" / "digits" / "train.py").write_text("second")
    (package / "workspace" / "new.py").write_text("new")
    workspace(package)
    assert (place / "digits" / "train.py").read_text() == "second"
    assert (place / "new.py").read_text() == "new"


def test_what_somebody_changed_or_added_stays(package: Path) -> None:
    place = workspace(package)
    (place / "digits" / "train.py").write_text("mine")
    (place / "own.py").write_text("mine too")
    (package / "workspace" / "digits" / "train.py").write_text("second")
    assert bring(package / "workspace", place) == ("digits/train.py",)
    assert (place / "digits" / "train.py").read_text() == "mine"
    assert changed(place) == ("digits/train.py", "own.py")


def test_a_copy_that_was_cut_off_is_completed(package: Path) -> None:
    place = workspace(package)
    (place / module.NOTE).unlink()
    (package / "workspace" / "more.py").write_text("more")
    assert workspace(package) == place
    assert (place / "more.py").exists()
    assert changed(place) == ()


def test_what_was_deleted_stays_away(package: Path) -> None:
    place = workspace(package)
    (place / "digits" / "train.py").unlink()
    (package / "workspace" / "new.py").write_text("new")
    workspace(package)
    assert not (place / "digits" / "train.py").exists()


def test_a_copy_has_what_links_lead_to_and_not_what_is_hidden_or_leads_nowhere(
    package: Path, tmp_path: Path
) -> None:
    source = package / "workspace"
    (source / "digits" / "train.py").chmod(0o444)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.csv").write_text("rows")
    (source / "data").symlink_to(tmp_path / "data")
    (source / "again.py").symlink_to("digits/train.py")
    (source / "gone.py").symlink_to("nowhere.py")
    for name in (".checkpoints", "__pycache__"):
        (source / name).mkdir()
        (source / name / "x").touch()
    copy(source, place := tmp_path / "hers")
    files = sorted(path for path in place.rglob("*") if path.is_file())
    assert [str(path.relative_to(place)) for path in files] == [
        "again.py",
        "data/rows.csv",
        "digits/train.py",
    ]
    assert not any(path.is_symlink() for path in place.rglob("*"))
    assert all(path.stat().st_mode & 0o200 for path in files)
    assert not (tmp_path / ".hers.partial").exists()


def test_a_copy_that_fails_says_what_of_and_why(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: str, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), source)

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as caught:
        copy(package / "workspace", tmp_path / "hers")
    assert (caught.value.errno, Path(caught.value.filename).name) == (errno.ENOSPC, "train.py")
    assert not (tmp_path / "hers").exists()


def test_a_home_that_cannot_be_written_is_named(package: Path, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(SetupError, match="home"):
        workspace(package)
