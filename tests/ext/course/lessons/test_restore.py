"""A notebook is put back as it came, and what a student wrote is kept."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.errors import UnsupportedError
from lab.ext.course.lessons import find_lesson
from lab.ext.course.lessons.restore import restore

LESSON = find_lesson(2)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with the notebook as it came."""
    folder = tmp_path / "root" / "workspace" / "notebooks"
    folder.mkdir(parents=True)
    (folder / LESSON.notebook).write_text("as it came")
    return tmp_path / "root"


def test_a_changed_notebook_is_kept_under_another_name_each_time(root: Path, tmp_path: Path) -> None:
    hers = tmp_path / "work" / "notebooks" / LESSON.notebook
    where = {"RAYLAB_WORKSPACE": str(tmp_path / "work")}
    assert restore(LESSON, where, root)[1] is None
    assert hers.read_text() == "as it came"
    assert restore(LESSON, where, root)[1] is None
    for number, text in enumerate(("first", "second"), 1):
        hers.write_text(text)
        notebook, kept = restore(LESSON, where, root)
        assert (notebook, hers.read_text()) == (hers, "as it came")
        assert kept == hers.with_name(f"02-a-job.{number}.ipynb")
        assert kept.read_text() == text


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(("git", *identity, *words), cwd=folder, check=True, capture_output=True)


def test_in_a_checkout_the_notebook_comes_from_git(root: Path) -> None:
    notebook = root / "workspace" / "notebooks" / LESSON.notebook
    where = {"RAYLAB_WORKSPACE": str(root / "workspace")}
    notebook.write_text("with outputs")
    with pytest.raises(UnsupportedError, match="git has none"):
        restore(LESSON, where, root)
    assert notebook.read_text() == "with outputs"
    git(root, "init", "-q")
    notebook.write_text("as it was committed")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "x")
    notebook.write_text("with outputs")
    _, kept = restore(LESSON, where, root)
    assert notebook.read_text() == "as it was committed"
    assert kept is not None
    assert kept.read_text() == "with outputs"
