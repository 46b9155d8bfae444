"""Who descends from a process, through the launchers of forks."""

from __future__ import annotations

import os

import pytest

from lab.host.descent import descendants, fork_of, of_table


@pytest.mark.parametrize(
    ("name", "pid"),
    [("fork:12", 12), ("fork:", 0), ("fork:x", 0), ("fork:-3", 0), ("xfork:12", 0), ("", 0), ("python", 0)],
)
def test_a_launcher_bears_the_id_of_its_fork(name: str, pid: int) -> None:
    assert fork_of(name) == pid


def test_a_fork_and_its_children_descend_from_who_asked_for_it() -> None:
    table = {
        1: (0, "init"),
        10: (1, "raylet"),
        11: (10, "fork:21"),
        12: (10, "fork:99"),  # one that has ended
        20: (1, "server"),
        21: (20, "ray::Worker"),
        22: (21, "loader"),
        23: (20, "ray::Other"),
    }
    assert of_table(10, table) == {10, 11, 12, 21, 22}
    assert of_table(20, table) == {20, 21, 22, 23}


def test_this_process_descends_from_its_parent() -> None:
    assert os.getpid() in descendants(os.getppid())
