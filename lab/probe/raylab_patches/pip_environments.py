"""`pip` in a job's runtime environment, without a copy of everything that is installed.

Where Ray (2.60) itself runs in a virtual environment it copies all of that for each list of packages, on each
node: 2 GB and a minute or more. Here the job gets a new environment that sees what is installed, as Ray does
it outside of virtual environments; only what is missing is installed into it. Nodes that share a host share
the folder of such environments, and the second would find the first one's: each node gets one of its own, as
part of the patch `ray_start`, since machines of their own could not break one another's jobs.

pip may replace what is there, too: for the newest torchvision it takes the newest torch, 2 GB with CUDA,
beside the one that Ray's processes use. So torch stays unless the job names another one. A list that names
boto3 before s3fs, as the course's, makes it read 200 packages and end at an s3fs of 2020: such names go last.
"""

from __future__ import annotations

import os
import sys

from raylab_compat.import_hooks import after_import
from raylab_switches import active

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

SERVICE_VARIABLE = "RAYLAB_SERVICE_NAME"
"""Environment variable that says which node this is."""

SEES = "raylab.pth"
"""File in the new environment that names the packages installed outside of it."""

CONSTRAINTS = "PIP_CONSTRAINT"
"""pip's environment variable with files of constraints, separated by spaces."""

CONFLICT = "The user requested (constraint) torch=="
"""pip's words where a job asks for what the constraint forbids."""

LAST = ("boto3", "botocore", "torch")
"""Packages that others pin. Without a version they are asked for last: pip settles what comes first."""


def command(folder: str) -> list[str]:
    """The command that makes an empty environment with pip, and fetches nothing."""
    cache = os.path.join(os.path.dirname(folder), "virtualenv_app_data")
    options = ["--app-data", cache, "--reset-app-data", "--no-periodic-update", "--no-download"]
    return [sys.executable, "-m", "virtualenv", *options, folder]


def see_installed(folder: str) -> None:
    """Let the environment in `folder` see the packages of the one that runs; its own come first."""
    from sysconfig import get_path, get_paths

    installed = dict.fromkeys((get_path("purelib"), get_path("platlib")))
    into = get_paths(vars={"base": folder, "platbase": folder})["purelib"]
    lines = [f"import site; site.addsitedir({path!r})\n" for path in installed]
    with open(os.path.join(into, SEES), "w", encoding="utf-8") as file:
        file.writelines(lines)


def make_without_copying(virtualenv_utils: ModuleType) -> None:
    """Let Ray make environments so, where it runs in a virtual environment."""
    ray: Any = virtualenv_utils
    make = ray.create_or_get_virtualenv

    async def create_or_get_virtualenv(path: str, cwd: str, logger: Any) -> None:
        if not ray.is_in_virtualenv() or os.name == "nt":
            await make(path, cwd, logger)
            return
        folder = ray.get_virtualenv_path(path)
        logger.info("Creating %s, which sees what is installed in %s", folder, sys.prefix)
        await ray.check_output_cmd(command(folder), logger=logger, cwd=cwd, env={"HOME": path})
        see_installed(folder)

    ray.create_or_get_virtualenv = create_or_get_virtualenv


def in_order(packages: list[str]) -> list[str]:
    """The lines of a requirements file, with names that say nothing to pip at their end."""
    return sorted(packages, key=lambda line: line.strip().lower() in LAST)


def constraint(folder: str) -> str:
    """The URL of a new file in `folder` that keeps the torch of this environment; empty where it has none."""
    from importlib.metadata import PackageNotFoundError, version
    from pathlib import Path

    try:
        public = version("torch").partition("+")[0]
    except PackageNotFoundError:
        return ""
    file = Path(folder) / "raylab-constraints.txt"
    file.write_text(f"torch=={public}\n", encoding="utf-8")
    return file.as_uri()  # pip splits the variable at spaces


def keep_torch(module: ModuleType) -> None:
    """Let pip leave torch as it is where the job does not ask for another one."""
    processor: Any = module.PipProcessor
    install = processor._install_pip_packages

    async def install_beside(self: Any, path: str, packages: Any, cwd: str, env: Any, logger: Any) -> None:
        packages = in_order(packages)
        files = " ".join(filter(None, (env.get(CONSTRAINTS), constraint(path))))
        try:
            await install(self, path, packages, cwd, {**env, CONSTRAINTS: files} if files else env, logger)
        except Exception as error:
            if CONFLICT not in str(error):
                raise
            logger.info("The job asks for another torch than the lab's")
            await install(self, path, packages, cwd, env, logger)

    processor._install_pip_packages = install_beside


def apart(plugin: Any) -> None:
    """Let this plugin of Ray's keep its environments in a folder of this node's own."""
    init = plugin.__init__

    def init_apart(self: Any, resources_dir: str) -> None:
        init(self, os.path.join(resources_dir, os.environ.get(SERVICE_VARIABLE, "")))

    plugin.__init__ = init_apart


RAY = "ray._private.runtime_env"
LEAN = {f"{RAY}.virtualenv_utils": make_without_copying, f"{RAY}.pip": keep_torch}
APART = {
    f"{RAY}.pip": lambda module: apart(module.PipPlugin),
    f"{RAY}.uv": lambda module: apart(module.UvPlugin),
}


def install() -> None:
    """Change how this process makes environments: the agent of a node does."""
    if active("pip_environments"):
        after_import(LEAN)
    if os.environ.get(SERVICE_VARIABLE) and active("ray_start"):
        after_import(APART)
