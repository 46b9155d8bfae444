"""Environments for `pip` in a job's runtime environment. Ray's parts that are changed are stood in for."""

from __future__ import annotations

import asyncio
import logging
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError
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
        ({"RAYLAB_SERVICE_NAME": "ray-head"}, {"virtualenv_utils", "pip"}),
        ({"RAYLAB_SERVICE_NAME": "ray-head", **ONE_HOST}, {"virtualenv_utils", "pip", "uv"}),
        ({"RAYLAB_SERVICE_NAME": "ray-head", **ONE_HOST, OFF: "pip_environments"}, {"pip", "uv"}),
        ({"RAYLAB_SERVICE_NAME": "ray-head", **ONE_HOST, OFF: "ray_start"}, {"virtualenv_utils", "pip"}),
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


class Pip(ModuleType):
    """`pip`, Ray's module: what was to be installed under which constraints, and how it ends."""

    def __init__(self, *ends: str) -> None:
        super().__init__("pip")
        self.ran = ran = list[tuple[list[str], str]]()
        left = list(ends)

        class PipProcessor:
            async def _install_pip_packages(
                self, path: str, pip_packages: list[str], cwd: str, pip_env: dict[str, str], logger: Any
            ) -> None:
                ran.append((pip_packages, pip_env.get("PIP_CONSTRAINT", "")))
                if problem := left.pop(0) if left else "":
                    raise RuntimeError(problem)

        self.PipProcessor = PipProcessor

    def install(self, folder: Path, *packages: str, **env: str) -> None:
        pip_environments.keep_torch(self)
        logger = logging.getLogger("test")
        asyncio.run(self.PipProcessor()._install_pip_packages(str(folder), list(packages), "/", env, logger))


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", {"torch": "2.13.0+cpu"}.__getitem__)


@pytest.mark.usefixtures("torch")
def test_torch_stays_as_it_is_in_a_job_that_asks_for_what_goes_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "with a space"
    folder.mkdir()
    pip = Pip()
    pip.install(folder, "torchvision", PIP_CONSTRAINT="/mine.txt")
    ((packages, constraints),) = pip.ran
    assert packages == ["torchvision"]
    mine, ours = constraints.split()
    assert mine == "/mine.txt"
    assert ours == (folder / "raylab-constraints.txt").as_uri()
    assert (folder / "raylab-constraints.txt").read_text() == "torch==2.13.0\n"


@pytest.mark.usefixtures("torch")
def test_a_job_that_asks_for_another_torch_gets_it(tmp_path: Path) -> None:
    pip = Pip("ERROR: Cannot install torch==2.12\n    The user requested (constraint) torch==2.13.0")
    pip.install(tmp_path, "torch==2.12")
    assert [constraints != "" for _, constraints in pip.ran] == [True, False]


@pytest.mark.usefixtures("torch")
def test_a_package_that_does_not_exist_is_asked_for_once(tmp_path: Path) -> None:
    pip = Pip("ERROR: No matching distribution found for lesson-no-such-package")
    with pytest.raises(RuntimeError, match="No matching distribution"):
        pip.install(tmp_path, "lesson-no-such-package")
    assert len(pip.ran) == 1


def test_names_that_others_pin_come_last_unless_they_have_a_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    pip = Pip()
    pip.install(tmp_path, "--no-index", "torch", "torchvision", "boto3", "s3fs", "botocore==1.43.117")
    ordered = ["--no-index", "torchvision", "s3fs", "botocore==1.43.117", "torch", "boto3"]
    assert pip.ran == [(ordered, "")]
