"""Real programs that tests run: built by labctl with Go, or installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from lab.runtime import ports
from tests.conftest import NEEDS_GO
from tests.go_programs import Program


def path_of(program: Program) -> str:
    """The version that labctl has built, else one on PATH; empty where there is neither."""
    return str(program.path) if program.path.is_file() else shutil.which(program.name) or ""


def needed(program: Program) -> str:
    """Its path. Skips the test without one."""
    return path_of(program) or pytest.skip(f"{NEEDS_GO}{program.name} is neither built nor on PATH")


def search_path(programs: Iterable[Program], path: str) -> str:
    """A PATH on which those of them that labctl has built come first."""
    folders = [str(Path(program.path).parent) for program in programs if program.path.is_file()]
    return os.pathsep.join((*folders, path))


CHOSEN: set[int] = set()
"""Ports for the programs of this session."""


def free_port() -> int:
    """A port for one of them: nobody listens there, and no connection that begins meanwhile is given it."""
    CHOSEN.add(port := ports.choose("s3", None, CHOSEN, usual=False))
    return port
