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
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO

from lab.errors import SetupError
from lab.host import environment
from lab.host.environment import pip
from lab.host.environment.installer import Installer
from lab.host.environment.process import Run, run_process
from lab.host.environment.progress import InstallProgress, Progress, pinned

FREE_GB = {"cli": 0.2, "local": 3.0, "report": 0.3, "test": 0.3}
"""Free space that a group needs: measured 0.1, 2.1, 0.15 and 0.2 GB installed, and the downloads."""

FREE_GB_CUDA = 9.0
"""The same with torch's CUDA build: 2.7 GB of wheels (on PyPI, torch 2.13.0), unpacked about twice that."""

TAIL = 200
"""Lines of a process's output that are searched for the cause of its failure."""

PROBE = "import sys, pip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))"

KEPT = ("raylab-setup.log", "raylab-setup.lock")

COMPILED: Mapping[str, Iterable[str]] = {
    **environment.MODULES,
    "local": ("ray", "ray.dashboard.agent", "ray.dashboard.dashboard"),
}
"""Modules that are compiled as soon as they are installed, with all that they import.

Of `local` those that many processes of a starting lab would each compile. What ranks import, four times as
much, the lab's fork server compiles when it imports it, beside everything else (docs/forks.md).
"""

IMPORT = """
import contextlib, importlib, sys
for name in sys.argv[1:]:
    with contextlib.suppress(Exception):
        importlib.import_module(name)
"""


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
        self.installer = Installer(
            root, machine.environ, progress, self._run, self._installed, self._forget_half_installed
        )

    def install(self, group: str) -> bool:
        if environment.is_current(group, self.root):
            return False
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.log: IO[str] = log
            self._make_venv()
            self._forget_half_installed()
            self.installer.choose()
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
        code, lines = self._run([self.machine.python, "-m", "venv", "--without-pip", self.venv])
        # where the pip that is there knows --python (22.3), it is much faster than ensurepip
        if code == 0 and self.installer.install_uv(self.machine.python):
            return
        if code == 0:
            code, lines = self._run([self.python, "-m", "ensurepip", "--upgrade", "--default-pip"])
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

    def _installed(self, name: str = "*") -> int:
        pattern = os.path.join(glob.escape(self._site_packages()), f"{name}.dist-info", "INSTALLER")
        return len(glob.glob(pattern))

    def _torch_source(self) -> pip.TorchSource:
        return pip.torch_source(
            self.machine.environ, self.machine.platform, self.machine.exists, self.installer.pip_config
        )

    def _check_space(self, groups: list[str], *, cuda: bool) -> None:
        needed = sum(FREE_GB_CUDA if g == "local" and cuda else FREE_GB[g] for g in groups)
        environ = self.machine.environ
        cache = environ.get("UV_CACHE_DIR") or environ.get("XDG_CACHE_HOME") or os.path.expanduser("~")
        while not os.path.isdir(cache):
            cache = os.path.dirname(os.path.abspath(cache))
        what = " and ".join(groups)
        for place in dict.fromkeys((self.venv, cache)):
            free = self.machine.free_bytes(place) / 1e9
            if free < needed:
                larger = "put the checkout on" if place == self.venv else "set UV_CACHE_DIR to a folder on"
                raise SetupError(
                    f"{place} has {free:.2f} GB free; installing {what} needs {needed:.1f} GB",
                    f"make room there, or {larger} a larger disk, then repeat",
                )

    def _install_group(self, group: str, source: pip.TorchSource | None) -> None:
        path = environment.requirements_of(group, self.root)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        names = set(pinned(text))
        self.progress.line(f"installing {group}: {len(names)} packages pinned in requirements/{group}.txt")
        if source:
            self._install_torch(text, source)
        code, lines = self.installer.fetch(group, ("-r", path))
        if code != 0:
            raise self._failed(f"installing {group} failed", lines)
        self._run([self.python, "-c", IMPORT, *COMPILED[group]], f"{group}: compiling")
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
        patience = {} if source.required else {"RETRIES": "1", "TIMEOUT": "15"}
        code, lines = self.installer.fetch("torch", ("--no-deps", pin), source.index, patience)
        if code == 0:
            return
        if source.required:
            raise self._failed(f"installing torch from {source.index} failed", lines)
        why = pip.cause(lines).message
        self.progress.line(f"{source.index} gave no torch ({why}); taking PyPI's CUDA build")
        self._check_space(["local"], cuda=True)

    # Processes

    def _run(
        self,
        argv: list[str],
        shown: InstallProgress | str = "",
        env: Mapping[str, str] | None = None,
        *,
        secret: bool = False,
    ) -> tuple[int, list[str]]:
        """Run to the end; the exit code and the last lines of output, which the log keeps unless `secret`."""
        tail: deque[str] = deque(maxlen=TAIL)

        def on_tick() -> None:
            if shown:
                self.progress.update(shown if isinstance(shown, str) else shown.text())

        def on_line(line: str) -> None:
            tail.append(line)
            if not secret:
                self.log.write(line + "\n")
            if isinstance(shown, InstallProgress):
                shown.feed(line)
            on_tick()

        self.log.write(f"$ {' '.join(argv)}\n")
        code = self.machine.run(argv, self.env if env is None else env, on_line, on_tick, self.lock)
        self.log.flush()
        return code, list(tail)

    def _failed(self, what: str, lines: list[str]) -> SetupError:
        cause = pip.cause(lines)
        return SetupError(f"{what}: {cause.message}", f"{cause.hint} (log: {self.log_path})")
