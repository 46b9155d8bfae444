"""Submissions to Ray: a command, its folder, its needs; what would fail at once is found before.

Nothing here talks to a cluster.
"""

from __future__ import annotations

import ast
import math
import os
import re
import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.cluster.packing import left_out
from lab.cluster.runtime_env import Origin, excludes_of, prepared, read_runtime_env
from lab.errors import NotFoundError, RefusedError, UsageError
from lab.host.reading import read_bytes
from lab.topology import MAX_CPUS, MAX_GPUS

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
    or an address that Ray fetches. Files that it names are read or sent (lab.cluster.runtime_env): they lie
    beside the JSON file, in the folder that is sent, or in the current one. Raises UsageError, NotFoundError.
    """
    try:
        words = tuple(shlex.split(command) if isinstance(command, str) else command)
    except ValueError as error:
        raise UsageError(f"the command {command!r} cannot be split: {error}") from error
    try:
        if isinstance(runtime_env, (str, Path)):
            path = Path(runtime_env)
            environment, beside, origin = read_runtime_env(path), [path.parent], f"--runtime-env {path}"
        else:
            environment, beside, origin = dict(runtime_env or {}), [], "runtime_env"
        named = str(environment.get("working_dir") or "")
        remote = working_dir is None and "://" in named
        folder = None if remote else Path(working_dir or named or ".").absolute()
    except OSError as error:
        raise NotFoundError(
            "the current folder no longer exists", "change to another one, or name one with --working-dir"
        ) from error
    if folder is not None:
        check_command(words, folder, excludes_of(environment))
    folders = (*beside, *([folder] if folder else []), Path())
    environment = prepared(environment, Origin(origin, folders, folder, excludes_of(environment)))
    if folder is not None:
        environment.pop("working_dir", None)
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


def check_command(command: tuple[str, ...], working_dir: Path, excludes: Sequence[str] = ()) -> None:
    """Find what would fail at once: no command, one in quotes, a script that is missing or does not parse.

    `excludes` are those of its runtime environment. Raises UsageError, NotFoundError.
    """
    if not command or not command[0].strip():
        raise UsageError(
            "nothing to submit", "name a recipe, or a command after --: labctl submit -- python train.py"
        )
    if re.search(r"\s", command[0]) and not os.path.exists(working_dir / command[0]):
        word = command[0].strip()
        typed = " ".join((word, *map(shlex.quote, command[1:])))
        for_a_shell = re.search(r"[|&;<>()$`*?~\n]", word)
        raise UsageError(
            f"{command[0]!r}: no program has such a name; a command is not written as one word",
            f"labctl submit -- bash -c {shlex.quote(typed)}"
            if for_a_shell
            else f"without quotes: labctl submit -- {typed}",
        )
    is_python = re.fullmatch(r"python(3(\.\d+)?)?", Path(command[0]).name)
    if not is_python or len(command) < 2 or command[1].startswith("-") or working_dir.is_file():
        return
    script = working_dir / command[1]
    if not os.path.isfile(script):
        raise NotFoundError(
            f"there is no script {command[1]} in {working_dir}", "give its path relative to --working-dir"
        )
    if not Path(command[1]).is_absolute() and (why := left_out(script, working_dir, excludes)):
        raise UsageError(f"{command[1]} is not sent with the job: {why}", "only what is sent can run there")
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
    for word in command:
        _check_text("the command", word)
    if (size := len(os.fsencode(line))) > MOST_WORD_BYTES:
        message = f"the command: has {size} bytes; the system takes at most {MOST_WORD_BYTES}"
        raise UsageError(message, "put it into a script of the working directory")
    variables = runtime_env.get("env_vars") or {}
    if not isinstance(variables, Mapping) or not all(isinstance(value, str) for value in variables.values()):
        raise UsageError("runtime_env.env_vars: must be an object whose values are strings")
    for name, value in variables.items():
        if not re.fullmatch(r"[^=\x00-\x1f\x7f\ud800-\udfff]+", name):
            raise UsageError(f"runtime_env.env_vars: {name[:80]!r} cannot be the name of a variable")
        if "\0" in value:
            raise UsageError(f"runtime_env.env_vars.{name}: has a NUL character, which no variable can hold")
        _check_text(f"runtime_env.env_vars.{name}", value)
        if (size := len(f"{name}={value}".encode())) > MOST_WORD_BYTES:
            message = f"runtime_env.env_vars.{name}: {size} bytes with its name, above {MOST_WORD_BYTES}"
            raise UsageError(message, "put files into the working directory")


def _check_text(where: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{where}: {text[:80]!a} is not UTF-8", "Ray takes no other text") from error


def check_waiting(why: str, allowed: bool) -> None:
    """Refuse a job that no node can hold, unless it is allowed to wait. Raises RefusedError."""
    if why and not allowed:
        raise RefusedError(
            f"the job was not submitted: {why}",
            "ask for less, or leave --fail-if-infeasible out: then it waits until such a node joins",
        )
