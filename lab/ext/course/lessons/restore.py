"""Puts the notebook of a lesson back as it came."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from lab.cluster.recipes import WORKSPACE_VARIABLE
from lab.errors import SetupError, UnsupportedError
from lab.ext.course.lessons.model import Lesson
from lab.host.command import run
from lab.host.files import ROOT
from lab.host.workspace import NAME, workspace

FOLDER = "notebooks"
GIT_SECONDS = 30.0


def restore(
    lesson: Lesson, environ: Mapping[str, str] = os.environ, root: Path = ROOT
) -> tuple[Path, Path | None]:
    """Put the notebook of a lesson back as it came; returns it, and where one that was changed is kept.

    Raises SetupError; UnsupportedError where the only copy is the one that was worked on.
    """
    place = Path(environ.get(WORKSPACE_VARIABLE) or workspace(root))
    notebook = place / FOLDER / lesson.notebook
    text = _original(root / NAME / FOLDER / lesson.notebook, notebook)
    try:
        kept = None
        if notebook.exists() and notebook.read_bytes() != text:
            named = (notebook.with_suffix(f".{number}.ipynb") for number in count(1))
            kept = notebook.rename(next(path for path in named if not path.exists()))
        notebook.parent.mkdir(parents=True, exist_ok=True)
        notebook.write_bytes(text)
    except OSError as error:
        raise SetupError(f"{notebook}: {error.strerror}", "check its owner and the disk") from error
    return notebook, kept


def _original(source: Path, worked_on: Path) -> bytes:
    """The notebook as it came: labctl's own copy, or the one in git where people work on that."""
    if source.is_file() and not (worked_on.exists() and source.samefile(worked_on)):
        return source.read_bytes()
    argv = ("git", "-C", str(source.parent), "show", f"HEAD:./{source.name}")
    try:
        shown = run(argv, timeout=GIT_SECONDS)
        shown.check_returncode()
        return shown.stdout.encode()
    except (OSError, subprocess.SubprocessError) as error:
        raise UnsupportedError(
            f"{source} is the only copy of this notebook, and git has none",
            "get it from the release that labctl came with",
        ) from error
