from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lab.daemons.hub import accounts
from lab.daemons.hub.__main__ import keep
from lab.daemons.hub.settings import KEPT
from lab.errors import SetupError
from lab.host import command

NOBODYS = 987_654
"""A number that no user of a machine has."""


@pytest.mark.parametrize(
    ("owners", "reserved", "uid"),
    [
        ((), 1000, 20_000),
        ((0, 1000), 1000, 20_000),
        ((20_000, 0, 20_004, 20_001), 1000, 20_005),
        ((), 20_000, 20_001),
        ((20_000,), 20_001, 20_002),
        ((20_000,), 70_000, 20_001),
    ],
)
def test_a_number_is_nobody_elses_and_not_that_of_the_owner_of_the_list(
    owners: tuple[int, ...], reserved: int, uid: int
) -> None:
    assert accounts.free(owners, reserved) == uid


def test_pip_installs_into_the_home_of_whoever_calls_it(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    accounts.own_packages(tmp_path)
    assert "include-system-site-packages = true" in (tmp_path / "pyvenv.cfg").read_text()
    assert (tmp_path / "pip.conf").read_text() == "[install]\nuser = true\n"


def test_the_sockets_of_her_kernels_are_in_a_folder_of_her_own_with_a_short_path(tmp_path: Path) -> None:
    uid = os.getuid()
    assert accounts.sockets(uid, tmp_path / "user") == accounts.sockets(uid, tmp_path / "user")
    info = (tmp_path / "user" / str(uid)).stat()
    assert (stat.S_IMODE(info.st_mode), info.st_uid) == (0o700, uid)


@pytest.mark.parametrize(
    ("person", "name"), [("ann", "ann"), ("root", "class-root"), ("mail", "class-mail"), ("tty", "class-tty")]
)
def test_a_user_is_called_as_the_person_and_never_as_one_of_the_image(person: str, name: str) -> None:
    ran: list[Sequence[str]] = []

    def run(argv: Sequence[str], *, timeout: float) -> subprocess.CompletedProcess[str]:
        assert timeout > 0
        ran.append(argv)
        return subprocess.CompletedProcess(argv, 0, "", "")

    assert accounts.account(person, NOBODYS, Path("/homes/ann"), run) == name
    ((program, *options),) = ran
    assert (program, options[-1]) == ("/usr/sbin/useradd", name)
    pairs = dict(pairwise(options))
    assert (pairs["--uid"], pairs["--home-dir"]) == (str(NOBODYS), "/homes/ann")


def test_a_user_who_is_there_is_not_made_again_and_one_that_cannot_be_made_is_an_error() -> None:
    def fail(argv: Sequence[str], *, timeout: float) -> subprocess.CompletedProcess[str]:
        assert timeout > 0
        return subprocess.CompletedProcess(argv, 4, "", "useradd: UID 987654 is not unique\n")

    assert accounts.account("ann", 0, Path("/homes/ann"), fail) == "root"
    with pytest.raises(SetupError, match="UID 987654 is not unique"):
        accounts.account("ann", NOBODYS, Path("/homes/ann"), fail)


def test_a_user_who_takes_too_long_to_make_is_an_error() -> None:
    def hang(argv: Sequence[str], *, timeout: float) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired(argv, timeout)

    with pytest.raises(SetupError, match="more than 30 s"):
        accounts.account("ann", NOBODYS, Path("/homes/ann"), hang)


def test_a_lower_bound_of_processes_stays() -> None:
    lower = (64, 64)
    code = (
        "import os, resource; from lab.daemons.hub import accounts; "
        f"resource.setrlimit(resource.RLIMIT_NPROC, {lower}); "
        "os.getuid() or os.setuid(65534); "  # root alone may raise it
        "accounts.limit(); print(resource.getrlimit(resource.RLIMIT_NPROC))"
    )
    argv = (sys.executable, "-c", code)
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == (f"{lower}\n", "")


def test_what_runs_as_a_person_has_none_of_the_hubs_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    start = command.start

    def start_here(
        argv: Sequence[str], *, user: int, group: int, extra_groups: tuple[int, ...], **options: Any
    ) -> Any:
        assert (user, group, extra_groups) == (NOBODYS, NOBODYS, ())
        return start(argv, **options)

    monkeypatch.setattr(command, "start", start_here)
    for name in ("OAUTH_CLIENT_SECRET", "HOME", "TZ"):
        monkeypatch.setenv(name, "UTC")
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    code, said = accounts.run_as(NOBODYS, (sys.executable, "-c", show), 60)
    assert code == 0
    ran = json.loads(said)
    assert {name: ran.get(name) for name in ("TZ", "PATH", "PYTHONNOUSERSITE")} == {
        "TZ": "UTC", "PATH": os.environ["PATH"], "PYTHONNOUSERSITE": "1",
    }  # fmt: skip
    assert ran.keys() <= {*KEPT, "PATH", "PYTHONPATH", "PYTHONNOUSERSITE", "LC_CTYPE"}  # Python adds the last


def test_whose_a_process_is() -> None:
    assert accounts.owns(os.geteuid(), os.getpid())
    assert not accounts.owns(NOBODYS, os.getpid())
    assert not accounts.owns(os.geteuid(), 2**22 + 1)  # more than there can be


def test_a_home_is_emptied_and_what_its_links_lead_to_stays(tmp_path: Path) -> None:
    home, other = tmp_path / "ann", tmp_path / "ben"
    (home / "work").mkdir(parents=True)
    other.mkdir()
    (other / "note").write_text("of ben")
    for folder in (home, home / "work"):
        (folder / "link").symlink_to(other)
        (folder / ".note").write_text("of ann")
    ended: list[int] = []
    accounts.empty(home, ended.append)
    assert ended == [os.getuid()]
    assert list(home.iterdir()) == []
    assert (other / "note").read_text() == "of ben"


def test_a_hub_that_is_killed_is_started_again_until_it_ends_by_itself() -> None:
    codes, cleared = [-9, -15, 1], []
    assert keep(lambda: codes.pop(0), lambda: cleared.append(len(codes))) == 1
    assert (codes, cleared) == ([], [2, 1])
