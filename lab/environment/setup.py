"""Makes `.venv` and installs groups of requirements into it; safe to interrupt, to repeat and to run twice.

Nothing counts as installed before its stamp is written. What an interrupted call leaves behind is found by
looking: an interpreter that does not run, a package whose installation did not reach its end.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import os
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO

from lab import environment
from lab.environment import pip
from lab.environment.process import Run, run_process
from lab.environment.progress import PipProgress, Progress, pinned
from lab.errors import SetupError

FREE_GB = {"cli": 0.2, "local": 3.0, "report": 0.3, "test": 0.3}
"""Free space that a group needs: measured 0.1, 2.1, 0.15 and 0.2 GB installed, and pip's downloads before."""

FREE_GB_CUDA = 9.0
"""The same with torch's CUDA build: 2.7 GB of wheels (on PyPI, torch 2.13.0), unpacked about twice that."""

TAIL = 200
"""Lines of a process's output that are searched for the cause of its failure."""

PROBE = "import sys, pip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))"

KEPT = ("raylab-setup.log", "raylab-setup.lock")


@dataclass(frozen=True)
class Machine:
    """What set-up asks of the machine; tests put in their own."""

    run: Run = run_process
    free_bytes: Callable[[str], int] = lambda path: shutil.disk_usage(path).free
    exists: Callable[[str], bool] = os.path.exists
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    platform: str = sys.platform
    python: str = field(default_factory=lambda: str(getattr(sys, "_base_executable", "") or sys.executable))
    """The interpreter that `.venv` is made with."""


def install(
    root: str,
    group: str,
    on_line: Callable[[str], None] | None,
    *,
    machine: Machine | None = None,
    progress: Progress | None = None,
) -> bool:
    """Install `group` and what it builds on into the `.venv` of `root`; returns whether anything was missing.

    Raises SetupError, with the cause and where the log lies.
    """
    progress = progress or Progress(on_line)
    machine = machine or Machine()
    try:
        with _lock(root, progress) as lock:
            return _Setup(root, machine, progress, lock).install(group)
    except OSError as error:
        raise _from_os(error, root) from error
    finally:
        progress.clear()


def _from_os(error: OSError, root: str) -> SetupError:
    where = error.filename or environment.venv_of(root)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return SetupError(
            f"{where} cannot be written ({error.strerror}): labctl keeps its environment in {root}/.venv",
            f"put the checkout where you may write, or use a Python of your own with {environment.NO_VENV}=1",
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SetupError(f"{where} cannot be written: the disk is full", "make room, then repeat")
    return SetupError(f"{where}: {error.strerror or error}", f"repeat; if it stays, remove {root}/.venv")


@contextlib.contextmanager
def _lock(root: str, progress: Progress) -> Iterator[int | None]:
    """One set-up at a time. pip inherits the lock: it holds for as long as an orphaned pip still writes."""
    venv = environment.venv_of(root)
    os.makedirs(venv, exist_ok=True)
    with open(os.path.join(venv, "raylab-setup.lock"), "a") as file:
        try:
            import fcntl
        except ImportError:
            yield None
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.line(f"another labctl is setting up {venv}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


class _Setup:
    """One installation, under the lock."""

    def __init__(self, root: str, machine: Machine, progress: Progress, lock: int | None) -> None:
        self.root = root
        self.venv = environment.venv_of(root)
        self.python = environment.python_of(root)
        self.log_path = os.path.join(self.venv, "raylab-setup.log")
        self.machine = machine
        self.progress = progress
        self.lock = lock
        self.env = pip.environment(machine.environ)

    def install(self, group: str) -> bool:
        if environment.is_current(group, self.root):
            return False
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.log: IO[str] = log
            self._make_venv()
            self._forget_half_installed()
            missing = [g for g in environment.BUILDS_ON[group] if not environment.is_current(g, self.root)]
            source = self._torch_source() if "local" in missing else None
            self._check_space(missing, cuda=bool(source and source.cuda))
            for name in missing:
                self._install_group(name, source if name == "local" else None)
        self.progress.line(f"{group}: ready after {self.progress.seconds:.0f} s")
        return True

    # The interpreter

    def _make_venv(self) -> None:
        if self._healthy():
            return
        self._check_space(["cli"], cuda=False)
        broken = False
        for name in os.listdir(self.venv):
            if name not in KEPT:
                broken = True
                path = os.path.join(self.venv, name)
                shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        why = "; the one there was half-made, or its Python is gone" if broken else ""
        self.progress.line(f"making {self.venv} with {self.machine.python}{why}")
        code, lines = self._run([self.machine.python, "-m", "venv", self.venv])
        if code == 0:
            return
        if not any("ensurepip" in line or "No module named" in line for line in lines):
            raise self._failed("making .venv failed", lines)
        code, virtualenv = self._run([self.machine.python, "-m", "virtualenv", "--quiet", self.venv])
        if code == 0:
            return
        if not any("No module named" in line for line in virtualenv):
            raise self._failed("making .venv with virtualenv failed", virtualenv)
        raise SetupError(
            f"{self.machine.python} cannot make virtual environments: its venv module is not complete",
            "install it (Debian, Ubuntu: sudo apt install python3-venv), then repeat",
        )

    def _healthy(self) -> bool:
        if not os.access(self.python, os.X_OK) or "pip" in self._half_installed():
            return False
        try:
            return self._run([self.python, "-c", PROBE])[0] == 0
        except OSError:
            return False

    # Packages

    def _site_packages(self) -> str:
        patterns = ("lib/python3.*/site-packages", "Lib/site-packages")
        found = [path for p in patterns for path in glob.glob(os.path.join(glob.escape(self.venv), p))]
        return found[0] if found else os.path.join(self.venv, "lib")

    def _half_installed(self) -> dict[str, str]:
        """Name and folder of every package whose installation was cut off: pip writes INSTALLER last."""
        folders = glob.glob(os.path.join(glob.escape(self._site_packages()), "*.dist-info"))
        return {
            os.path.basename(folder).split("-")[0]: folder
            for folder in folders
            if not os.path.isfile(os.path.join(folder, "INSTALLER"))
        }

    def _forget_half_installed(self) -> None:
        for name, folder in self._half_installed().items():
            self.progress.line(f"{name} was only half installed; installing it again")
            shutil.rmtree(folder)

    def _count_installed(self) -> int:
        return len(glob.glob(os.path.join(glob.escape(self._site_packages()), "*.dist-info", "INSTALLER")))

    def _torch_source(self) -> pip.TorchSource:
        _, config = self._run([self.python, "-m", "pip", "config", "list"])
        return pip.torch_source(
            self.machine.environ, self.machine.platform, self.machine.exists, "\n".join(config)
        )

    def _check_space(self, groups: list[str], *, cuda: bool) -> None:
        needed = sum(FREE_GB_CUDA if g == "local" and cuda else FREE_GB[g] for g in groups)
        for place in dict.fromkeys((self.venv, tempfile.gettempdir())):
            free = self.machine.free_bytes(place) / 1e9
            share = needed if place == self.venv else needed / 3
            if free < share:
                raise SetupError(
                    f"{place} has {free:.2f} GB free; installing {' and '.join(groups)} needs {share:.1f} GB",
                    "make room, or set TMPDIR to a larger disk, then repeat"
                    if place != self.venv
                    else "make room there, or put the checkout on a larger disk, then repeat",
                )

    def _install_group(self, group: str, source: pip.TorchSource | None) -> None:
        path = environment.requirements_of(group, self.root)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        names = set(pinned(text))
        self.progress.line(f"installing {group}: {len(names)} packages pinned in requirements/{group}.txt")
        if source:
            self._install_torch(text, source)
        shown = PipProgress(group, text, self._count_installed)
        code, lines = self._run(pip.install(self.python, "-r", path), shown)
        if code != 0:
            raise self._failed(f"installing {group} failed", lines)
        with open(environment.stamp_of(group, self.root), "w", encoding="utf-8") as stamp:
            json.dump(environment.expected_stamp(group, self.root), stamp)

    def _install_torch(self, requirements: str, source: pip.TorchSource) -> None:
        """Say which torch comes; fetch it ahead of the rest where it has an index of its own.

        As an extra index of the whole installation that index would be asked for each of the packages.
        """
        pin = next(line for line in requirements.splitlines() if line.startswith("torch=="))
        self.progress.line(f"{pin}: {source.why}")
        if not source.index:
            return
        patience = () if source.required else ("--retries", "1", "--timeout", "15")
        argv = pip.install(self.python, "--no-deps", "--index-url", source.index, *patience, pin)
        code, lines = self._run(argv, PipProgress("torch", pin, self._count_installed))
        if code == 0:
            return
        if source.required:
            raise self._failed(f"installing torch from {source.index} failed", lines)
        self.progress.line(f"{source.index} gave no torch ({pip.cause(lines)[0]}); taking PyPI's CUDA build")
        self._check_space(["local"], cuda=True)

    # Processes

    def _run(self, argv: list[str], shown: PipProgress | None = None) -> tuple[int, list[str]]:
        tail: deque[str] = deque(maxlen=TAIL)

        def on_tick() -> None:
            if shown:
                self.progress.update(shown.text())

        def on_line(line: str) -> None:
            self.log.write(line + "\n")
            tail.append(line)
            if shown:
                shown.feed(line)
                on_tick()

        self.log.write(f"$ {' '.join(argv)}\n")
        code = self.machine.run(argv, self.env, on_line, on_tick, self.lock)
        self.log.flush()
        return code, list(tail)

    def _failed(self, what: str, lines: list[str]) -> SetupError:
        message, hint = pip.cause(lines)
        return SetupError(f"{what}: {message}", f"{hint} (log: {self.log_path})")
