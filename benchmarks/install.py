"""Installation and demo in a fresh clone with an empty HOME: this checkout against another one.

Uncommitted changes are not in the clone. Packages come from the index that pip is configured to use.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks.checkouts import Side, call, clean, sides
from benchmarks.compare import Figures, Found, LostError, Measure, by_turns
from benchmarks.measure import say

SECONDS = 1200.0
IMPORT = """
import os
try:
    from lab.host import environment
except ImportError:
    from lab import environment
"""
"""Imports the module that installs packages; older checkouts have it in another place."""

INSTALL = f"""{IMPORT}
for group in ("local", "jupyter"):
    if os.path.exists(environment.requirements_of(group, environment.ROOT)):
        environment.ensure(group)
"""
"""Installs all that `up` without Docker needs; in older checkouts JupyterLab is part of `local`."""

Measured = Callable[[Path, Mapping[str, str]], Figures]
"""Measurement in a clone, with this environment."""

NOT_TAKEN = ("VIRTUAL_ENV", "LABCTL_", "XDG_", "PIP_CACHE_DIR", "UV_CACHE_DIR", "PYTHONPATH")
"""Variables, by name or prefix, that a fresh machine does not have."""


def install(runs: int, against: Path | None) -> tuple[Found, list[Side]]:
    """Measure `labctl --help` in a fresh clone, then the installation of what plain processes need."""
    return _compared("install", runs, against, _install)


def demo(runs: int, against: Path | None) -> tuple[Found, list[Side]]:
    """Measure `labctl demo` in a fresh clone, including its set-up."""
    return _compared("demo", runs, against, _demo)


def _compared(step: str, runs: int, against: Path | None, measure: Measured) -> tuple[Found, list[Side]]:
    compared = sides(against, stock=False)
    steps: dict[str, dict[str, Measure]] = {step: {side.name: _once(side, measure) for side in compared}}
    return by_turns(steps, runs, say), compared


def _once(side: Side, measure: Measured) -> Measure:
    def run() -> Figures:
        with fresh(side) as (clone, environment):
            yield from measure(clone, environment)

    return run


def _install(clone: Path, environment: Mapping[str, str]) -> Figures:
    first = call([base_python(), "labctl.py", "--help"], clone, environment, seconds=SECONDS)[0]
    yield "labctl --help, fresh clone", first
    python = str(clone / ".venv" / "bin" / "python")
    second = call([python, "-c", INSTALL], clone, environment, seconds=SECONDS)[0]
    yield "then Ray, PyTorch and JupyterLab", second
    yield "both", first + second


def _demo(clone: Path, environment: Mapping[str, str]) -> Figures:
    words = ["labctl.py", "demo", "--runtime", "local", "--down", "--json"]
    try:
        yield (
            "labctl demo, set-up included",
            call([base_python(), *words], clone, environment, seconds=SECONDS)[0],
        )
    finally:
        with contextlib.suppress(LostError):
            call([base_python(), "labctl.py", "down", "--volumes", "--yes"], clone, environment)


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
