"""Forks as psutil's children of who has started them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from forkserver import children

PARENTS = {1: 0, 5: 0, 10: 1, 20: 10, 21: 20, 30: 1, 31: 30, 32: 31, 40: 10, 50: 10}
STAT = {
    5: ("kthread", 0),
    20: ("fork:31", 100),
    31: ("python", 101),
    40: ("fork:99", 110),
    50: ("fork:5", 120),
}
"""A shell (10) has started a launcher (20), whose fork (31) is a child of the server (30), another (40),
whose fork has ended, and one in a container (50), where the fork's id is another."""


def stat(pid: int) -> tuple[str, int]:
    return STAT.get(pid, ("", 0))


def test_a_fork_is_where_its_launcher_was_with_all_that_it_has_started() -> None:
    table = {**PARENTS, 31: 10}
    del table[20]
    assert children.adopted(PARENTS, stat) == table


def test_psutil_sees_them_so_once_it_follows_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "stat_of", stat)
    psutil = SimpleNamespace(_ppid_map=lambda: dict(PARENTS))
    for _ in range(2):
        children.follow(psutil)  # type: ignore[arg-type]
    assert psutil._ppid_map()[31] == 10


def test_the_psutil_that_is_installed_has_the_table() -> None:
    import os

    import psutil

    assert psutil._ppid_map()[os.getpid()] == os.getppid()  # type: ignore[attr-defined]


def test_a_process_tells_its_name_and_when_it_began() -> None:
    import os

    name, begin = children.stat_of(os.getpid())
    assert name
    assert begin > 0
    assert children.stat_of(2**22 + 1) == ("", 0)
