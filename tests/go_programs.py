"""Programs that are built from their source with `go install` where no binary of them can be had.

Each is built once for a version and kept in the user's cache; Go keeps modules and what it has compiled in
its own caches.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lab.errors import SetupError, UnsupportedError
from lab.host import command
from lab.host.files import lock, user_cache
from lab.host.quantities import format_duration

BUILD_SECONDS = 3600.0
"""Timeout of a build. MinIO takes 4 minutes of one core, and several times that where others compute, too."""

DOWNLOAD_SECONDS = 1800.0
"""Timeout of the download of what a build needs, and of reading all of its packages."""

NOT_REACHED = re.compile(
    r'Get "https?://|dial tcp|unable to access|GOPROXY=off|reading https?://\S+: (?!404 |410 )[45]\d\d '
    r"|requires go >= |toolchain not available"
)
"""Words of Go for a proxy of modules that is out of reach or does not serve, and for a Go that is too old."""


class SourcesError(SetupError):
    """The modules that a program is built from cannot be had from here."""


@dataclass(frozen=True)
class Program:
    """A command in a Go module."""

    name: str
    package: str
    version: str
    """As the module proxy has it."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variable of the program -> text that the linker writes into it."""

    @property
    def argv(self) -> tuple[str, ...]:
        """The command that builds it with `go install`."""
        return ("go", "install", *self.options, f"{self.package}@{self.version}")

    @property
    def options(self) -> tuple[str, ...]:
        flags = "".join(f" -X {name}={value}" for name, value in self.variables.items())
        return ("-trimpath", "-ldflags", f"-s -w{flags}")

    def make(self, folder: str, machine: Machine) -> None:
        """Build it into a folder. Raises SourcesError, SetupError."""
        go(self.name, self.argv, {"GOBIN": folder, "CGO_ENABLED": "0"}, machine=machine)

    @property
    def path(self) -> Path:
        return user_cache() / "programs" / f"{self.name}-{self.version}" / self.name


MINIO_COMMIT = "07c3a429bfed433e49018cb0f78a52145d4bedeb"
"""The commit of MINIO_RELEASE, whose tag is no version of a Go module: its pseudo-version is asked for."""

MINIO_RELEASE = "RELEASE.2025-09-07T16-13-09Z"
"""The release of the image in compose/lab.yaml."""

MINIO = Program(
    "minio",
    "github.com/minio/minio",
    f"v0.0.0-20250907161309-{MINIO_COMMIT[:12]}",
    {
        "github.com/minio/minio/cmd.Version": "2025-09-07T16:13:09Z",
        "github.com/minio/minio/cmd.ReleaseTag": MINIO_RELEASE,
        "github.com/minio/minio/cmd.CommitID": MINIO_COMMIT,
        "github.com/minio/minio/cmd.ShortCommitID": MINIO_COMMIT[:12],
        "github.com/minio/minio/cmd.CopyrightYear": "2025",
    },
)


END_WITH_PARENT = (
    sys.executable, "-IS", "-c",
    "import ctypes, os, sys\n"
    "prctl = getattr(ctypes.CDLL(None), 'prctl', None)\n"
    "prctl and prctl(1, 15)\n"  # PR_SET_PDEATHSIG, SIGTERM
    "os.execvp(sys.argv[1], sys.argv[1:])",
)  # fmt: skip
"""Beginning of a command that Linux ends with SIGTERM when the thread that started it is no more."""


def run_bound(
    argv: Sequence[str], on_line: command.OnLine, **options: Any
) -> subprocess.CompletedProcess[str]:
    """`command.stream` of a command that does not outlive a labctl that is killed: a build takes minutes."""
    return command.stream((*END_WITH_PARENT, *argv), on_line, **options)


@dataclass(frozen=True)
class Machine:
    """The machine, as far as a build asks it; tests put in their own."""

    which: Callable[[str], str | None] = shutil.which
    run: Callable[..., subprocess.CompletedProcess[str]] = run_bound
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)


def build(program: Program, say: Callable[[str], None], machine: Machine | None = None) -> Path:
    """Build a program, unless it is there; returns its path. `say` gets a line when it begins.

    It is linked statically, so it runs in containers too. Raises UnsupportedError without Go, SourcesError,
    SetupError.
    """
    machine = machine or Machine()
    path = program.path
    if path.is_file():
        return path
    if machine.which("go") is None:
        raise UnsupportedError(f"{program.name} cannot be built: no `go` on PATH", "install Go 1.24 or newer")
    what = f"building {program.name} {program.version}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = "choose a folder that you may write to: export XDG_CACHE_HOME=/some/where"
        raise SetupError(f"cannot write to {path.parent}: {error.strerror}", hint) from error
    busy = path.parent / "lock"
    with lock(busy, what, patience=BUILD_SECONDS, on_wait=lambda holder: say(f"waiting: {holder}")):
        if path.is_file():
            return path
        say(f"{what} with Go, which takes minutes the first time")
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            program.make(folder, machine)
            if not Path(folder, program.name).is_file():
                raise SetupError(
                    f"{program.name} cannot be built: Go built no such program", "check its package"
                )
            os.replace(Path(folder, program.name), path)
    return path


def go(
    name: str,
    argv: Sequence[str],
    variables: Mapping[str, str] = MappingProxyType({}),
    *,
    folder: Path | None = None,
    machine: Machine | None = None,
    seconds: float = BUILD_SECONDS,
) -> None:
    """Build a program in `folder` with `argv`, `go build` or `go install`, once its sources are there.

    `seconds` is the timeout of the build. Raises SourcesError where they cannot be had, SetupError where it
    cannot be built of them.
    """
    machine = machine or Machine()
    env = {**machine.environ, **variables}
    # -n: do what comes before a build, which is to read every package, and only print its commands
    first = 4 if argv[2] == "-C" else 2  # -C DIR is to be the first flag
    run_go(name, (*argv[:first], "-n", *argv[first:]), DOWNLOAD_SECONDS, env, machine, folder, downloads=True)
    run_go(name, tuple(argv), seconds, env, machine, folder)


def run_go(
    name: str,
    argv: tuple[str, ...],
    seconds: float,
    env: Mapping[str, str],
    machine: Machine,
    folder: Path | None = None,
    *,
    downloads: bool = False,
) -> str:
    """Run Go; returns what it prints. Raises SetupError, SourcesError when it could not download."""
    try:
        ended = machine.run(argv, lambda _: None, timeout=seconds, env=env, cwd=folder)
    except subprocess.TimeoutExpired as error:
        kind = SourcesError if downloads else SetupError
        what = "its sources are not here" if downloads else "not built"
        message = f"{name} cannot be built: {what} after {format_duration(seconds)}"
        raise kind(message, "try again: Go keeps what it has built") from error
    except OSError as error:
        raise SetupError(f"{name} cannot be built: {error}", "see whether `go version` works") from error
    if ended.returncode:
        lines = [line for line in ended.stdout.splitlines() if line.strip() and "downloading" not in line]
        kind = SourcesError if downloads and NOT_REACHED.search(ended.stdout) else SetupError
        raise kind(
            f"{name} cannot be built: {lines[0] if lines else f'exit code {ended.returncode}'}",
            f"see its output: {' '.join(argv)}",
        )
    return ended.stdout
