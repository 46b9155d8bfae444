"""The wheel, built and installed where there is no checkout: all files are in it, and labctl runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lab.host import environment
from lab.host.environment.pip import environment as pip_environment
from lab.version import __version__
from tests.conftest import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.rare]

PARTS = ("labctl.py", "lab", "compose", "docker", "docs", "workspace", "requirements")
PATIENCE = 300.0
"""Seconds for one call; building and installing take 20 s together on an idle machine."""


def run(*argv: str, home: Path) -> str:
    """Run a command outside the checkout, with an empty home; what it prints."""
    kept = {
        k: v
        for k, v in pip_environment(os.environ).items()
        if not k.startswith(("RAYLAB", "LABCTL", "PYTHON"))
    }
    called = subprocess.run(
        argv,
        cwd=home,
        env={**kept, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert called.returncode == 0, called.stderr
    return called.stdout


def test_the_wheel_has_every_file_and_runs_outside_the_checkout(tmp_path: Path) -> None:
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--wheel-dir",
        str(tmp_path),
        str(ROOT),
        home=tmp_path,
    )
    (wheel,) = tmp_path.glob("raylab_labctl-*.whl")
    tracked = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", *PARTS], capture_output=True, text=True, check=True
    ).stdout.split("\0")
    with zipfile.ZipFile(wheel) as archive:
        inside = {name.removeprefix("raylab_labctl/") for name in archive.namelist()}
    assert {name for name in tracked if name and (ROOT / name).exists()} <= inside

    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", str(venv), home=tmp_path)
    run(str(venv / "bin" / "pip"), "install", "--quiet", str(wheel), home=tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    labctl = str(venv / "bin" / "labctl")
    assert run(str(venv / "bin" / "raylab"), "--version", home=home) == f"labctl, version {__version__}\n"
    assert not list(home.iterdir()), "it writes nothing before it has to"
    recipes = json.loads(run(labctl, "submit", "--list", "--json", home=home))["recipes"]
    assert "digits" in {recipe["name"] for recipe in recipes}
    assert (home / ".raylab" / "workspace" / "digits" / "train.py").exists()
    assert not (home / ".raylab" / environment.ENVIRONMENTS).exists()
