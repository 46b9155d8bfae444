"""A folder is written whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.errors import OutputError, RefusedError
from lab.ext.kubernetes.command import write_folder

FILES = {"a.yaml": b"a", "sub/b.sh": b"b"}


def test_the_files_are_there_and_scripts_can_be_run(tmp_path: Path) -> None:
    write_folder(tmp_path / "new" / "folder", FILES)
    assert (tmp_path / "new" / "folder" / "a.yaml").read_bytes() == b"a"
    assert os.access(tmp_path / "new" / "folder" / "sub" / "b.sh", os.X_OK)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["folder"]


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write_folder(tmp_path / "empty", FILES)
    assert (tmp_path / "empty" / "a.yaml").exists()


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(RefusedError, match="not empty"):
        write_folder(tmp_path, FILES)
    with pytest.raises(RefusedError, match="not a folder"):
        write_folder(tmp_path / "mine", FILES)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write"):
        write_folder(tmp_path / "x", {"a": b"", "a/b": b""})
    assert list(tmp_path.iterdir()) == []
