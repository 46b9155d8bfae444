"""Nodes of a Ray that is another than the patches expect."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from lab.errors import PatchError
from lab.host.files import PROBE

NODE = (sys.executable, "-m", "raylab_patches.ray_start", "start", "--head", "--block")


def doctored_ray(folder: Path, module: str, old: str, new: str) -> Path:
    """A folder with a package `ray` like the one that is installed, but for the source of one module."""
    spec = find_spec("ray")
    assert spec is not None
    assert spec.origin is not None
    installed, copy = Path(spec.origin).parent, folder / "ray"
    parts = module.split(".")
    for depth in range(len(parts)):
        (copy / Path(*parts[:depth])).mkdir(parents=True, exist_ok=True)
        for entry in (installed / Path(*parts[:depth])).iterdir():
            if entry.stem != parts[depth]:
                (copy / Path(*parts[:depth]) / entry.name).symlink_to(entry)
    source = (installed / Path(*parts)).with_suffix(".py").read_text()
    assert old in source
    (copy / Path(*parts)).with_suffix(".py").write_text(source.replace(old, new))
    return folder


def start(ray: Path, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY")}
    environment = {**kept, **more, "PYTHONPATH": f"{PROBE}{os.pathsep}{ray}"}
    return subprocess.run(NODE, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("patch", "old", "new", "environment"),
    [
        (
            "ray_start",
            "def resolve_ip_for_localhost(host",
            "def resolve_ip_for_localhost(address_family, host",
            {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"},
        ),
        (
            "redis_password",
            'f"--redis_password={redis_password}"',
            'f"--redis_url=redis://:{redis_password}@"',
            {"RAYLAB_REDIS_PASSWORD_FILE": "/nowhere"},
        ),
    ],
)
def test_a_node_that_would_be_open_without_a_patch_does_not_start(
    tmp_path: Path, patch: str, old: str, new: str, environment: dict[str, str]
) -> None:
    ray = doctored_ray(tmp_path, "_private.services", old, new)
    ended = start(ray, **environment)
    assert ended.returncode == PatchError.exit_code, ended
    assert f"the patch {patch} does not fit Ray" in ended.stderr
    assert "this node does not start" in ended.stderr
    assert "Traceback" not in ended.stderr
