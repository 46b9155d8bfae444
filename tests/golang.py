"""Programs that Go builds from a module of the tests, and where their sources lie."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import NEEDS_GO, ROOT

BUILD_SECONDS = 900.0
"""Timeout of a build. It takes minutes where Go has compiled nothing of it before, and seconds after."""


def go_build(module: Path, target: str, *words: str, timeout: float = BUILD_SECONDS) -> Path:
    """The path build/TARGET, made by `go build WORDS` in the folder of a module.

    It is a folder of programs where TARGET ends in a slash. Skips the test where Go, or a module, is not to
    be had.
    """
    path = ROOT / "build" / target
    _go(module, "build", "-o", f"{ROOT / 'build'}/{target}", *words, timeout=timeout)
    return path


def go_source(module: Path, name: str) -> Path:
    """The folder in Go's cache with the source of a module that this one requires."""
    return Path(_go(module, "list", "-m", "-f", "{{.Dir}}", name, timeout=60.0).strip())


def _go(module: Path, *words: str, timeout: float) -> str:
    if shutil.which("go") is None:
        pytest.skip(f"{NEEDS_GO}there is no command `go`")
    ended = subprocess.run(
        ("go", *words), cwd=module, capture_output=True, text=True, timeout=timeout, check=False
    )
    if ended.returncode == 0:
        return ended.stdout
    lines = [line for line in ended.stderr.splitlines() if not line.startswith("go: downloading")]
    if any(line.startswith("# ") for line in lines):  # a package that does not compile
        pytest.fail("\n".join(lines))
    pytest.skip(f"{NEEDS_GO}{lines[0] if lines else f'go {words[0]} failed'}")
