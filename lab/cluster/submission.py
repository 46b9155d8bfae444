"""Submissions to Ray: a command, its folder, its needs; what would fail at once is found before.

Nothing here talks to a cluster.
"""

from __future__ import annotations

import ast
import io
import math
import os
import re
import shlex
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.errors import NotFoundError, RefusedError, UsageError
from lab.host.files import files_below
from lab.host.reading import SMALL, TooLargeError, read_bytes, read_json, read_text
from lab.topology import MAX_CPUS, MAX_GPUS

EXCLUDED = (
    ".git",
    ".venv",
    "__pycache__",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
)
"""Folders of a working directory that are not sent to the cluster."""

MAX_PACKAGE_BYTES = 100 * 1024**2
"""Largest working directory, zipped. Ray keeps packages in the head's memory; its own limit is 500 MiB."""

MAX_UNPACKED_BYTES = 1024**3
"""Most bytes of files in it: what takes no room on a disk or when zipped would still be read."""


MOST_WORD_BYTES = 128 * 1024 - 1
"""Longest command line, and longest variable with its name: Linux starts no program with a longer one."""

RESUME_VARIABLE = "RAYLAB_RESUME_RUN"
"""Environment variable of a job: the name that its runs without a name get (see raylab_compat.resume)."""

RESUMES = "raylab_resumes"
"""Metadata of a job that goes on with another one's run: that one's submission id."""

JOB_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
"""A job's name: it becomes part of object names and addresses."""


@dataclass(frozen=True)
class Submission:
    """A command to run, its folder and its needs. Raises UsageError for amounts that make no sense."""

    command: tuple[str, ...]
    working_dir: Path | None = None
    num_cpus: float = 0
    """Logical CPUs reserved for the entrypoint itself; with 0 of both it runs on the head."""
    num_gpus: float = 0
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    submission_id: str = ""
    """Empty: Ray makes one."""
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, amount, most in (
            ("num_cpus", self.num_cpus, MAX_CPUS),
            ("num_gpus", self.num_gpus, MAX_GPUS),
        ):
            known = isinstance(amount, (int, float)) and math.isfinite(amount)
            if not known or not 0 <= amount <= most:
                raise UsageError(f"{name} {amount}: must be a number between 0 and {most}")
        check_startable(self.command, self.runtime_env)

    @property
    def demand(self) -> Mapping[str, float]:
        """Demand of the entrypoint on one node: resource -> amount."""
        return {"CPU": self.num_cpus, "GPU": self.num_gpus}


@dataclass(frozen=True)
class Submitted:
    """A job that was handed to Ray, or put into a queue.

    `waits` says why it cannot start as the cluster is, or is empty; `workload` is its NAMESPACE/NAME in the
    queues, empty where Ray has it already.
    """

    submission_id: str
    waits: str = ""
    workload: str = ""


def described(
    command: str | Sequence[str],
    working_dir: str | Path | None = None,
    num_cpus: float = 0,
    num_gpus: float = 0,
    runtime_env: Mapping[str, object] | str | Path | None = None,
    name: str = "",
) -> Submission:
    """A submission of a command, checked: it is split as a shell would, and the script must be there.

    `runtime_env` is Ray's, or a JSON file with it; a `working_dir` in it serves when none is given: a folder,
    or an address that Ray fetches. A `pip` in it that is a file's name is read: in a JSON file relative to
    that file, else to the folder that is sent, or to the current one. Raises UsageError, NotFoundError.
    """
    try:
        words = tuple(shlex.split(command) if isinstance(command, str) else command)
    except ValueError as error:
        raise UsageError(f"the command {command!r} cannot be split: {error}") from error
    if isinstance(runtime_env, (str, Path)):
        environment = read_runtime_env(Path(runtime_env))
    else:
        environment = dict(runtime_env or {})
    remote = str(environment.get("working_dir") or "")
    if working_dir is None and "://" in remote:
        folder = None
    else:
        try:
            folder = Path(working_dir or remote or ".").absolute()
        except OSError as error:
            raise NotFoundError(
                "the current folder no longer exists", "change to another one, or name one with --working-dir"
            ) from error
        check_command(words, folder)
        environment.pop("working_dir", None)
    if isinstance(pip := environment.get("pip"), str):
        requirements = (folder or Path.cwd()) / pip
        environment["pip"] = _requirements(requirements, "runtime_env")
    if name:
        check_job_name(name)
    metadata = {"job_name": name} if name else {}
    return Submission(words, folder, num_cpus, num_gpus, environment, metadata=metadata)


def check_job_name(name: str, option: str = "name") -> None:
    """Refuse a name that JOB_NAME does not match. Raises UsageError, which calls it `option`."""
    if not re.fullmatch(JOB_NAME, name):
        raise UsageError(
            f"{option} {name!r}: not a job name",
            "use 1 to 64 letters, digits, dots, hyphens and underscores, starting with a letter or digit",
        )


def package(folder: Path) -> bytes:
    """`folder` as a zip, equal bytes for equal content. Raises NotFoundError, UsageError when too large."""
    if not folder.is_dir():
        raise NotFoundError(f"the working directory {folder} does not exist")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        left = MAX_UNPACKED_BYTES
        for path in files_below(folder, EXCLUDED.__contains__):
            try:
                name = path.relative_to(folder).as_posix()
                entry = zipfile.ZipInfo(name)  # a fixed date, so that only content counts
                entry.external_attr = (0o755 if path.stat().st_mode & 0o100 else 0o644) << 16
                content = read_bytes(path, left)
                archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
            except TooLargeError as error:
                raise _too_large(folder, f"{MAX_UNPACKED_BYTES >> 20} MiB: {path}") from error
            except OSError as error:
                raise UsageError(f"cannot read {path} of the working directory: {error.strerror}") from error
            except UnicodeEncodeError as error:
                raise UsageError(
                    f"the name of {str(path)!a} in the working directory is not UTF-8"
                ) from error
            left -= len(content)
            if buffer.tell() > MAX_PACKAGE_BYTES:
                raise _too_large(folder, f"{MAX_PACKAGE_BYTES >> 20} MiB zipped")
    return buffer.getvalue()


def _too_large(folder: Path, limit: str) -> UsageError:
    return UsageError(
        f"the working directory {folder} is larger than {limit}",
        "choose a smaller one with --working-dir; put data into the object store or a volume",
    )


def check_command(command: tuple[str, ...], working_dir: Path) -> None:
    """Find what would fail at once: no command, a script that is missing or does not parse.

    Raises UsageError, NotFoundError.
    """
    if not command:
        raise UsageError(
            "nothing to submit", "name a recipe, or a command after --: labctl submit -- python train.py"
        )
    is_python = re.fullmatch(r"python(3(\.\d+)?)?", Path(command[0]).name)
    if not is_python or len(command) < 2 or command[1].startswith("-"):
        return
    script = working_dir / command[1]
    if not os.path.isfile(script):
        raise NotFoundError(
            f"there is no script {command[1]} in {working_dir}", "give its path relative to --working-dir"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(read_bytes(script), filename=str(script))
    except OSError as error:
        raise UsageError(f"cannot read {script}: {error.strerror}") from error
    except (RecursionError, MemoryError) as error:
        raise UsageError(f"{script}: not valid Python: nested too deeply") from error
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise UsageError(
            f"{script}{f', line {line}' if line else ''}: not valid Python: {getattr(error, 'msg', error)}"
        ) from error


def check_startable(command: Sequence[str], runtime_env: Mapping[str, object]) -> None:
    """Refuse what the system starts no program with: Ray would try for many minutes. Raises UsageError."""
    line = shlex.join(command)
    if "\0" in line:
        raise UsageError("the command: has a NUL character, which no argument can hold")
    if (size := len(os.fsencode(line))) > MOST_WORD_BYTES:
        message = f"the command: has {size} bytes; the system takes at most {MOST_WORD_BYTES}"
        raise UsageError(message, "put it into a script of the working directory")
    variables = runtime_env.get("env_vars") or {}
    if not isinstance(variables, Mapping) or not all(isinstance(value, str) for value in variables.values()):
        raise UsageError("runtime_env.env_vars: must be an object whose values are strings")
    for name, value in variables.items():
        if not re.fullmatch(r"[^=\x00-\x1f\x7f]+", name):
            raise UsageError(f"runtime_env.env_vars: {name[:80]!r} cannot be the name of a variable")
        if "\0" in value:
            raise UsageError(f"runtime_env.env_vars.{name}: has a NUL character, which no variable can hold")
        if (size := len(f"{name}={value}".encode("utf-8", "surrogateescape"))) > MOST_WORD_BYTES:
            message = f"runtime_env.env_vars.{name}: {size} bytes with its name, above {MOST_WORD_BYTES}"
            raise UsageError(message, "put files into the working directory")


def read_runtime_env(path: Path) -> dict[str, object]:
    """The runtime environment in a JSON file; a relative `pip` file in it is read beside it.

    Raises NotFoundError, UsageError with the line.
    """
    try:
        document = read_json(path, SMALL)
    except OSError as error:
        raise NotFoundError(f"--runtime-env {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"--runtime-env {path}: not JSON: {error}") from error
    if not isinstance(document, dict):
        raise UsageError(f"--runtime-env {path}: must be a JSON object, not {type(document).__name__}")
    pip = document.get("pip")
    if isinstance(pip, str):
        document["pip"] = _requirements(path.parent / pip, f"--runtime-env {path}")
    return document


def _requirements(path: Path, where: str) -> list[str]:
    """The lines of a requirements file that `where` names. Raises NotFoundError, UsageError."""
    try:
        lines = read_text(path, SMALL).splitlines()
    except OSError as error:
        raise NotFoundError(f"{where}: pip: {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{where}: pip: {path}: {error}") from error
    return [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]


def check_waiting(why: str, allowed: bool) -> None:
    """Refuse a job that no node can hold, unless it is allowed to wait. Raises RefusedError."""
    if why and not allowed:
        raise RefusedError(
            f"the job was not submitted: {why}",
            "ask for less, or leave --fail-if-infeasible out: then it waits until such a node joins",
        )
