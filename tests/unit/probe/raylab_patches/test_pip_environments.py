"""Environments for `pip` in a job's runtime environment. Ray's parts that are changed are stood in for."""

from __future__ import annotations

import asyncio
import logging
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from raylab_patches import pip_environments
from raylab_patches.ray_start import LOOPBACK as ONE_HOST
from raylab_switches import OFF


class Ray(ModuleType):
    """`virtualenv_utils`: what it made, how."""

    def __init__(self, *, in_virtualenv: bool) -> None:
        super().__init__("virtualenv_utils")
        self.copied: list[str] = []
        self.ran: list[tuple[list[str], dict[str, str]]] = []
        self.is_in_virtualenv = lambda: in_virtualenv

    def get_virtualenv_path(self, path: str) -> str:
        return str(Path(path) / "virtualenv")

    async def create_or_get_virtualenv(self, path: str, cwd: str, logger: Any) -> None:
        self.copied.append(path)

    async def check_output_cmd(self, argv: list[str], *, logger: Any, cwd: str, env: dict[str, str]) -> None:
        self.ran.append((argv, env))
        into = sysconfig.get_paths(vars={"base": argv[-1], "platbase": argv[-1]})["purelib"]
        Path(into).mkdir(parents=True)


def make(ray: Ray, path: Path) -> None:
    pip_environments.make_without_copying(ray)
    asyncio.run(ray.create_or_get_virtualenv(str(path), str(path), logging.getLogger("test")))


def test_a_jobs_environment_sees_what_is_installed_instead_of_copying_it(tmp_path: Path) -> None:
    ray = Ray(in_virtualenv=True)
    make(ray, tmp_path)
    assert ray.copied == []
    ((argv, env),) = ray.ran
    assert env == {"HOME": str(tmp_path)}, "a container's user may have no home, and virtualenv asks for one"
    assert argv[:3] == [sys.executable, "-m", "virtualenv"]
    assert "--no-download" in argv
    assert argv[-1] == str(tmp_path / "virtualenv")
    (sees,) = (tmp_path / "virtualenv").rglob(pip_environments.SEES)
    assert sees.parent.name == "site-packages"
    assert f"site.addsitedir({sysconfig.get_path('purelib')!r})" in sees.read_text()
    assert all(line.startswith("import ") for line in sees.read_text().splitlines())


def test_outside_of_a_virtual_environment_ray_does_as_it_always_does(tmp_path: Path) -> None:
    ray = Ray(in_virtualenv=False)
    make(ray, tmp_path)
    assert ray.copied == [str(tmp_path)]
    assert ray.ran == []


@pytest.mark.parametrize(
    ("variables", "changed"),
    [
        ({"RAYLAB_SERVICE_NAME": "ray-head"}, {"virtualenv_utils"}),
        ({"RAYLAB_SERVICE_NAME": "ray-head", **ONE_HOST}, {"virtualenv_utils", "pip", "uv"}),
        ({"RAYLAB_SERVICE_NAME": "ray-head", **ONE_HOST, OFF: "pip_environments"}, {"pip", "uv"}),
        ({"RAYLAB_SERVICE_NAME": "ray-head", **ONE_HOST, OFF: "ray_start"}, {"virtualenv_utils"}),
        (ONE_HOST, set()),
    ],
)
def test_without_the_patch_ray_copies_and_on_one_host_folders_are_apart(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], changed: set[str]
) -> None:
    asked: set[str] = set()
    monkeypatch.setattr(pip_environments, "after_import", asked.update)
    for name in (pip_environments.SERVICE_VARIABLE, *ONE_HOST, OFF):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    pip_environments.install()
    assert {module.rpartition(".")[2] for module in asked} == changed


@pytest.mark.parametrize(("service", "folder"), [("ray-worker-1", "/ray/ray-worker-1"), ("", "/ray/")])
def test_each_node_keeps_its_environments_apart(
    monkeypatch: pytest.MonkeyPatch, service: str, folder: str
) -> None:
    class Plugin:
        def __init__(self, resources_dir: str) -> None:
            self.folder = resources_dir

    monkeypatch.setenv("RAYLAB_SERVICE_NAME", service)
    pip_environments.apart(Plugin)
    assert Plugin("/ray").folder == folder
