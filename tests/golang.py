"""Programs that Go builds from a module of the tests, and where their sources lie."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests import go_programs
from tests.conftest import ROOT, needs_go


def go_build(module: Path, target: str, *words: str, timeout: float = go_programs.BUILD_SECONDS) -> Path:
    """The path build/TARGET, made by `go build WORDS` in the folder of a module.

    It is a folder of programs where TARGET ends in a slash. Skips the test where Go, or a module, is not to
    be had.
    """
    path = ROOT / "build" / target
    argv = ("go", "build", "-o", f"{ROOT / 'build'}/{target}", *words)
    with needs_go():
        go_programs.go(path.name, argv, folder=module, seconds=timeout)
    return path


def go_source(module: Path, name: str) -> Path:
    """The folder in Go's cache with the source of a module that this one, which is built, requires."""
    argv = ("go", "list", "-m", "-f", "{{.Dir}}", name)
    listed = subprocess.run(argv, cwd=module, capture_output=True, text=True, timeout=60.0, check=True)
    return Path(listed.stdout.strip())
