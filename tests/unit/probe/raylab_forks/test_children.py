"""Forks as psutil's children of who has started them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from raylab_forks import children

PARENTS = {1: 0, 10: 1, 20: 10, 21: 20, 30: 1, 31: 30, 32: 31, 40: 10}
NAMES = {20: "fork:31", 40: "fork:99", 10: "sh", 30: "python", 31: "python"}
"""A shell (10) has started a launcher (20), whose fork (31) is a child of the server (30), and another (40),
whose fork has ended."""


def named(pid: int) -> str:
    return NAMES.get(pid, "")


def test_a_fork_is_where_its_launcher_was_with_all_that_it_has_started() -> None:
    assert children.adopted(PARENTS, named) == {1: 0, 10: 1, 21: 20, 30: 1, 31: 10, 32: 31, 40: 10}


def test_psutil_sees_them_so_only_while_the_patch_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "name_of", named)
    monkeypatch.setenv("RAYLAB_FORK_FOLDER", "/f")
    monkeypatch.setenv("RAYLAB_PATCHES_OFF", "forks")
    psutil = SimpleNamespace(_ppid_map=lambda: dict(PARENTS))
    children.follow(psutil)  # type: ignore[arg-type]
    assert psutil._ppid_map() == PARENTS
    monkeypatch.delenv("RAYLAB_PATCHES_OFF")
    for _ in range(2):
        children.follow(psutil)  # type: ignore[arg-type]
    assert psutil._ppid_map()[31] == 10


def test_the_psutil_that_is_installed_has_the_table() -> None:
    import os

    import psutil

    assert psutil._ppid_map()[os.getpid()] == os.getppid()  # type: ignore[attr-defined]
