"""`.venv` as set-up sees it: its interpreter, the packages on disk, and the processes that fill it."""

from __future__ import annotations

import glob
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO

from lab.errors import SetupError
from lab.host import command, environment
from lab.host.clock import MONOTONIC, Clock
from lab.host.environment import pip
from lab.host.environment.progress import InstallProgress, Printer

TAIL = 200
"""Lines of a process's output that are searched for the cause of its failure."""

PROBE = "import sys, pip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))"

LOCK, LOG = "raylab-setup.lock", "raylab-setup.log"


@dataclass(frozen=True)
class VenvMachine:
    """The machine under `.venv`; tests put in their own."""

    run: Callable[..., subprocess.CompletedProcess[str]] = command.stream
    free_bytes: Callable[[str], int] = lambda path: shutil.disk_usage(path).free
    exists: Callable[[str], bool] = os.path.exists
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    platform: str = sys.platform
    python: str = field(default_factory=lambda: str(getattr(sys, "_base_executable", "") or sys.executable))
    """The interpreter that `.venv` is made with."""
    clock: Clock = MONOTONIC


class Venv:
    """The environment of one checkout, while it is set up."""

    def __init__(self, root: str, machine: VenvMachine, progress: Printer, lock: int, log: IO[str]) -> None:
        """Every process inherits the descriptor `lock`; its output goes into `log`."""
        self.root, self.machine, self.progress = root, machine, progress
        self.folder, self.python = environment.venv_of(root), environment.python_of(root)
        self._lock, self._log = lock, log
        self._env = pip.environment(machine.environ)

    def run(
        self,
        argv: list[str],
        shown: InstallProgress | str = "",
        env: Mapping[str, str] | None = None,
        *,
        secret: bool = False,
    ) -> tuple[int, list[str]]:
        """Run to the end; the exit code and the last lines of output, which the log keeps unless `secret`."""

        def show() -> None:
            if shown:
                self.progress.update(shown if isinstance(shown, str) else shown.text())

        def take(line: str) -> None:
            if not secret:
                self._log.write(line + "\n")
            if isinstance(shown, InstallProgress):
                shown.feed(line)
            show()

        self._log.write(f"$ {shlex.join(argv)}\n")
        ended = self.machine.run(
            argv, take, env=self._env if env is None else env, on_silence=show, pass_fds=(self._lock,)
        )
        self._log.flush()
        return ended.returncode, ended.stdout.splitlines()[-TAIL:]

    def failed(self, what: str, lines: list[str]) -> SetupError:
        """The error for a process that failed, with the cause that its last lines give."""
        cause = pip.cause(lines)
        return SetupError(f"{what}: {cause.message}", f"{cause.hint} (log: {os.path.join(self.folder, LOG)})")

    @property
    def healthy(self) -> bool:
        """True if the interpreter runs, fits and has a pip that is whole."""
        if not os.access(self.python, os.X_OK) or "pip" in self._half_installed():
            return False
        try:
            return self.run([self.python, "-c", PROBE])[0] == 0
        except OSError:
            return False

    def installed(self, name: str = "*") -> int:
        """The number of whole packages; `name` is a pattern for NAME-VERSION."""
        pattern = os.path.join(glob.escape(self._site_packages()), f"{name}.dist-info", "INSTALLER")
        return len(glob.glob(pattern))

    def forget_half_installed(self) -> None:
        """Remove the records of packages whose installation was cut off: else they count as installed."""
        for name, folder in self._half_installed().items():
            self.progress.line(f"{name} was only half installed; installing it again")
            shutil.rmtree(folder)

    def _site_packages(self) -> str:
        folders = glob.glob(os.path.join(glob.escape(self.folder), "lib/python3.*/site-packages"))
        return folders[0] if folders else os.path.join(self.folder, "lib")

    def _half_installed(self) -> dict[str, str]:
        """Name and folder of every package whose installation was cut off: INSTALLER is written last."""
        folders = glob.glob(os.path.join(glob.escape(self._site_packages()), "*.dist-info"))
        return {
            os.path.basename(folder).split("-")[0]: folder
            for folder in folders
            if not os.path.isfile(os.path.join(folder, "INSTALLER"))
        }
