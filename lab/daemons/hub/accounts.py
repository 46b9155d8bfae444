"""Unix users of people, in a container of the hub's own where it is root.

A user's number is that of the owner of her home, and so outlives the container; her entry in /etc/passwd is
made anew in each, when her server first starts.

`python -m lab.daemons.hub.accounts HOME` ends all that runs as the owner of a home, and empties it.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

import psutil

from lab.errors import SetupError
from lab.host import command
from lab.runtime.local import processes

FIRST = 20_000
"""Smallest number of a person's user. A rootless engine's containers have numbers up to 65,535."""

PROCESSES = 2048
"""Most processes and threads of a person: fewer than the container may have."""

BADNESS = "500"
"""Where memory of the container ends, a process of a person's is killed before the hub."""

USERADD = "/usr/sbin/useradd"  # which is not on the image's PATH
USERADD_SECONDS, FURNISH_SECONDS = 30.0, 120.0

FURNISH = (
    "import sys; from pathlib import Path; from lab.daemons.hub.settings import furnish; "
    "furnish(*map(Path, sys.argv[1:]))"
)


class Run(Protocol):
    """Runs a command: see lab.host.command.run."""

    def __call__(self, argv: Sequence[str], *, timeout: float) -> subprocess.CompletedProcess[str]: ...


def claim(home: Path, reserved: int) -> int:
    """The number of the user whose home this is, which is made where there is none.

    `reserved` becomes no person's: it owns what she must not read. Of two calls at the same time both may get
    the same number. Raises OSError.
    """
    home.mkdir(mode=0o700, exist_ok=True)
    uid = home.stat().st_uid
    if uid < FIRST:  # the hub's own until here
        uid = free((other.stat().st_uid for other in home.parent.iterdir()), reserved)
        os.chown(home, uid, uid)
    return uid


def free(owners: Iterable[int], reserved: int) -> int:
    """A number above those of all owners of homes, but not that one."""
    uid = max((FIRST - 1, *owners)) + 1
    return uid + (uid == reserved)


def own_packages(environment: Path = Path(sys.prefix)) -> None:
    """Let `pip install` in this virtual environment install into the home of whoever calls it (PEP 370).

    What it holds itself comes first, so nobody's packages keep her server from starting. Raises OSError.
    """
    settings = environment / "pyvenv.cfg"
    closed, opened = (f"include-system-site-packages = {word}" for word in ("false", "true"))
    settings.write_text(settings.read_text().replace(closed, opened))
    (environment / "pip.conf").write_text("[install]\nuser = true\n")


def sockets(uid: int, parent: Path = Path("/run/user")) -> Path:
    """The folder of this user for the sockets of her kernels, which nobody else enters. Raises OSError.

    It is short: a socket's path has 107 characters at most.
    """
    folder = parent / str(uid)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chown(folder, uid, uid)
    return folder


def account(person: str, uid: int, home: Path, run: Run = command.run) -> str:
    """The name of the Unix user with this number, who is made if there is none. Raises SetupError.

    She is called as in the class, unless the image has a user or a group of that name, such as `mail`.
    """
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    name = f"class-{person}" if _known(person) else person
    who = ("--uid", str(uid), "--user-group", "--home-dir", str(home), "--no-create-home")
    fails, hint = f"cannot make the Unix user {name}", "labctl restart hub"
    try:
        done = run((USERADD, *who, "--shell", "/bin/bash", name), timeout=USERADD_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"{fails}: it took more than {error.timeout:g} s", hint) from error
    if done.returncode:
        raise SetupError(f"{fails}: {done.stderr.strip()}", hint)
    return name


def _known(name: str) -> bool:
    looks: tuple[Callable[[str], object], ...] = (pwd.getpwnam, grp.getgrnam)
    for look in looks:
        with contextlib.suppress(KeyError):
            look(name)
            return True
    return False


def furnish_as(uid: int, home: Path, workspace: Path) -> None:
    """Furnish a home as the user whose it is: a link that she has put there leads her no further.

    Raises SetupError.
    """
    argv = (sys.executable, "-c", FURNISH, str(home), str(workspace))
    code, _ = run_as(uid, argv, FURNISH_SECONDS)
    if code != 0:
        why = "it took too long" if code is None else f"exit code {code}"
        raise SetupError(f"the notebooks cannot be copied into {home}: {why}", "labctl logs hub")


def run_as(uid: int, argv: Sequence[str], seconds: float) -> tuple[int | None, str]:
    """Run a command as this user: its exit code, None where it took too long and was killed; what it said.

    She may read its environment, which has nothing of the hub's secrets, and Python loads nothing of hers.
    """
    from lab.daemons.hub.settings import KEPT  # which takes longer to import than what this module runs

    kept = {name: os.environ[name] for name in (*KEPT, "PATH", "PYTHONPATH") if name in os.environ}
    options = {"user": uid, "group": uid, "extra_groups": (), "umask": 0o077}
    env = {**kept, "PYTHONNOUSERSITE": "1"}
    with command.start(argv, stdout=subprocess.PIPE, text=True, env=env, **options) as process:
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return None, ""
    return process.returncode, said


def limit() -> None:
    """Bound the number of processes of the user that this process becomes, and offer it to the OOM killer."""
    with contextlib.suppress(ValueError, OSError):  # a lower limit is there already
        resource.setrlimit(resource.RLIMIT_NPROC, (PROCESSES, PROCESSES))
    with contextlib.suppress(OSError):  # a kernel without it
        Path("/proc/self/oom_score_adj").write_text(BADNESS)


def owns(uid: int, pid: int) -> bool:
    """True for a process of this user: in a container that was made anew its id may be another one's."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid == uid
    except OSError:
        return False


def end(uid: int) -> None:
    """Kill all that runs as this person."""
    if uid >= FIRST:
        processes.kill_all(lambda: processes_of(uid))


def processes_of(uid: int) -> list[psutil.Process]:
    """All that runs as this user."""
    return [
        process
        for process in psutil.process_iter(["uids", "status"])
        if process.info["uids"] is not None and process.info["uids"].real == uid
        if process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def empty(home: Path, end: Callable[[int], None] = end) -> None:
    """End all that runs as the owner of a home, and delete what is in it. Raises OSError.

    The home itself stays, so that nobody else gets its owner's number.
    """
    end(home.stat().st_uid)
    for path in home.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


if __name__ == "__main__":
    empty(Path(sys.argv[1]))
