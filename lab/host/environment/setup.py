"""Makes `.venv` and installs groups of requirements into it; safe to interrupt, to repeat and to run twice.

Nothing counts as installed before its stamp is written. What an interrupted call leaves behind is found by
looking: an interpreter that does not run, a package whose installation did not reach its end.
"""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from lab.errors import SetupError
from lab.host import environment
from lab.host.environment import pip
from lab.host.environment.installer import Installer
from lab.host.environment.progress import Printer, pinned
from lab.host.environment.venv import LOCK, LOG, Venv, VenvMachine
from lab.host.files import take_lock

FREE_GB = {
    **{"cli": 0.2, "local": 2.8, "jupyter": 0.4, "report": 0.3, "kubernetes": 0.2, "torchft": 0.1},
    **{"serve": 0.3, "proxy": 0.2, "hub": 0.2, "test": 0.3},
}
"""Free space that a group needs: measured 0.1, 2.1, 0.15, 0.11 and 0.2 GB installed, and the downloads."""

FREE_GB_CUDA = 9.0
"""The same with torch's CUDA build: 2.7 GB of wheels (on PyPI, torch 2.13.0), unpacked about twice that."""

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


def install(
    root: str,
    group: str,
    on_line: Callable[[str], None] | None,
    *,
    machine: VenvMachine | None = None,
    progress: Printer | None = None,
) -> bool:
    """Install `group` and what it builds on into the `.venv` of `root`; returns whether anything was missing.

    One set-up runs at a time. uv inherits the lock, so that even an orphaned one holds it while it writes.
    Raises SetupError, with the cause and where the log lies.
    """
    progress = progress or Printer(on_line)
    machine = machine or VenvMachine()
    folder = environment.venv_of(root)
    try:
        os.makedirs(folder, exist_ok=True)
        with take_lock(
            Path(folder, LOCK),
            timeout=math.inf,
            on_wait=lambda: progress.line(f"another labctl is setting up {folder}; waiting for it"),
            clock=machine.clock,
        ) as lock:
            if environment.is_current(group, root):
                return False
            with open(os.path.join(folder, LOG), "w", encoding="utf-8") as log:
                _Setup(Venv(root, machine, progress, lock.fileno(), log)).install(group)
    except OSError as error:
        raise _from_os(error, root) from error
    finally:
        progress.clear()
    return True


def _from_os(error: OSError, root: str) -> SetupError:
    where = error.filename or environment.venv_of(root)
    folder = environment.venv_of(root)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        moved = "set RAYLAB_HOME to a folder that" if environment.packaged(root) else "put the checkout where"
        return SetupError(
            f"{where} cannot be written ({error.strerror}): labctl keeps its environment in {folder}",
            f"{moved} you may write, or use a Python of your own with {environment.NO_VENV}=1",
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SetupError(f"{where} cannot be written: the disk is full", "free some space, then try again")
    return SetupError(f"{where}: {error.strerror or error}", f"try again; if that fails, remove {folder}")


class _Setup:
    """One installation, under the lock."""

    def __init__(self, venv: Venv) -> None:
        self.venv = venv
        self.installer = Installer(venv)

    def install(self, group: str) -> None:
        venv = self.venv
        self._make_venv()
        venv.forget_half_installed()
        self.installer.prepare()
        missing = [g for g in environment.BUILDS_ON[group] if not environment.is_current(g, venv.root)]
        source = self._torch_source() if "local" in missing else None
        self._check_space(missing, cuda=bool(source and source.cuda))
        for name in missing:
            self._install_group(name, source if name == "local" else None)
        venv.progress.line(f"{group}: ready after {venv.progress.seconds:.0f} s")

    def _make_venv(self) -> None:
        venv = self.venv
        if venv.healthy:
            return
        self._check_space(["cli"], cuda=False)
        broken = [name for name in os.listdir(venv.folder) if name not in (LOCK, LOG)]
        for name in broken:
            path = os.path.join(venv.folder, name)
            shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        base = venv.machine.python
        why = "; the one that was there is incomplete, or its Python is gone" if broken else ""
        venv.progress.line(f"making {venv.folder} with {base}{why}")
        code, lines = venv.run([base, "-m", "venv", "--without-pip", venv.folder])
        # where the pip that is there knows --python (22.3), it is much faster than ensurepip
        if code == 0 and self.installer.install_uv(base)[0] == 0:
            return
        if code == 0:
            code, lines = venv.run([venv.python, "-m", "ensurepip", "--upgrade", "--default-pip"])
        if code == 0:
            return
        if not any("ensurepip" in line or "No module named" in line for line in lines):
            raise venv.failed("making .venv failed", lines)
        code, lines = venv.run([base, "-m", "virtualenv", "--quiet", venv.folder])
        if code == 0:
            return
        if not any("No module named" in line for line in lines):
            raise venv.failed("making .venv with virtualenv failed", lines)
        raise SetupError(
            f"{base} cannot make virtual environments: its venv module is incomplete",
            "install it (Debian, Ubuntu: sudo apt install python3-venv), then try again",
        )

    def _torch_source(self) -> pip.TorchSource:
        machine = self.venv.machine
        return pip.torch_source(machine.environ, machine.platform, machine.exists, self.installer.pip_config)

    def _check_space(self, groups: list[str], *, cuda: bool) -> None:
        needed = sum(FREE_GB_CUDA if g == "local" and cuda else FREE_GB[g] for g in groups)
        environ = self.venv.machine.environ
        cache = environ.get("UV_CACHE_DIR") or environ.get("XDG_CACHE_HOME") or os.path.expanduser("~")
        while not os.path.isdir(cache):
            cache = os.path.dirname(os.path.abspath(cache))
        what = " and ".join(groups)
        for place in dict.fromkeys((self.venv.folder, cache)):
            free = self.venv.machine.free_bytes(place) / 1e9
            if free < needed:
                own = place == self.venv.folder
                larger = "set UV_CACHE_DIR to a folder on"
                if own:
                    packaged = environment.packaged(self.venv.root)
                    larger = "set RAYLAB_HOME to a folder on" if packaged else "put the checkout on"
                raise SetupError(
                    f"{place} has {free:.2f} GB free; installing {what} needs {needed:.1f} GB",
                    f"free some space there, or {larger} a larger disk, then try again",
                )

    def _install_group(self, group: str, source: pip.TorchSource | None) -> None:
        venv = self.venv
        path = environment.requirements_of(group, venv.root)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        room = FREE_GB_CUDA if source and source.cuda else FREE_GB[group]
        venv.progress.line(
            f"installing {group}: {len(set(pinned(text)))} packages pinned in requirements/{group}.txt, "
            f"at most {room:g} GB on disk"
        )
        if source:
            self._install_torch(text, source)
        code, lines = self.installer.fetch(group, ("-r", path))
        if code != 0:
            raise venv.failed(f"installing {group} failed", lines)
        venv.run([venv.python, "-c", IMPORT, *COMPILED[group]], f"{group}: compiling")
        with open(environment.stamp_of(group, venv.root), "w", encoding="utf-8") as stamp:
            json.dump(environment.expected_stamp(group, venv.root), stamp)

    def _install_torch(self, requirements: str, source: pip.TorchSource) -> None:
        """Say which torch comes; fetch it ahead of the rest where it has an index of its own.

        As an extra index of the whole installation that index would be asked for each of the packages.
        """
        say = self.venv.progress.line
        pin = next(line for line in requirements.splitlines() if line.startswith("torch=="))
        say(f"{pin}: {source.why}")
        if not source.index:
            return
        limits = {} if source.required else {"RETRIES": "1", "TIMEOUT": "15"}
        code, lines = self.installer.fetch("torch", ("--no-deps", pin), source.index, limits)
        if code == 0:
            return
        if source.required:
            raise self.venv.failed(f"installing torch from {source.index} failed", lines)
        say(
            f"{source.index} gave no torch ({pip.cause(lines).message}); "
            f"taking PyPI's CUDA build, at most {FREE_GB_CUDA:g} GB on disk"
        )
        self.venv.forget_half_installed()
        self._check_space(["local"], cuda=True)
