"""The demo in a fresh clone with an empty HOME: this checkout against another one.

Uncommitted changes are not in the clone. Packages come from the index that pip is configured to use.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.checkouts import Side, call, clean, sides
from benchmarks.compare import Figures, Found, LostError, Measure, by_turns
from benchmarks.measure import say

SECONDS = 1200.0
NOT_TAKEN = ("VIRTUAL_ENV", "LABCTL_", "XDG_", "PIP_CACHE_DIR", "UV_CACHE_DIR", "PYTHONPATH")
"""Variables, by name or prefix, that a fresh machine does not have."""


def demo(runs: int, against: Path | None) -> tuple[Found, list[Side]]:
    """Measure `labctl demo` in a fresh clone, including its set-up."""
    compared = sides(against, stock=False)
    steps: dict[str, dict[str, Measure]] = {"demo": {side.name: _demo(side) for side in compared}}
    return by_turns(steps, runs, say), compared


def _demo(side: Side) -> Measure:
    def run() -> Figures:
        words = ["labctl.py", "demo", "--runtime", "local", "--down", "--json"]
        with fresh(side) as (clone, environment):
            try:
                seconds, _ = call([base_python(), *words], clone, environment, seconds=SECONDS)
                yield "labctl demo, set-up included", seconds
            finally:
                with contextlib.suppress(LostError):
                    call([base_python(), "labctl.py", "down", "--volumes", "--yes"], clone, environment)

    return run


@contextlib.contextmanager
def fresh(side: Side) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield a clone of a side's checkout and the environment of a new user; delete both at the end."""
    folder = Path(tempfile.mkdtemp(prefix="raylab-bench-"))
    clone, home = folder / "raylab", folder / "home"
    home.mkdir()
    try:
        git = ["git", "clone", "--quiet", str(side.root), str(clone)]
        ended = subprocess.run(git, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise LostError(f"git clone: {ended.stderr.strip()}")
        yield clone, environment_of(home, os.environ)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def environment_of(home: Path, here: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a user whose HOME is empty, with the configuration of pip from here."""
    kept = {name: value for name, value in clean(here).items() if not name.startswith(NOT_TAKEN)}
    config = Path(here.get("HOME", "")) / ".config" / "pip" / "pip.conf"
    if "PIP_CONFIG_FILE" not in kept and config.is_file():
        kept["PIP_CONFIG_FILE"] = str(config)
    return {**kept, "HOME": str(home)}


def base_python() -> str:
    """Return the Python that the running environment was created from: it has no packages of the lab."""
    return str(getattr(sys, "_base_executable", "") or sys.executable)
