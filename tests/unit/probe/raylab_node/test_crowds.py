"""Groups of processes that are too large are ended, and no others."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from raylab_node.crowds import LOOK_SECONDS, MOST, end_crowds, watching

JOB, OTHER = 4_000_001, 4_000_002
"""Groups that no process of a machine is in."""


def process(proc: Path, pid: int, group: int, threads: int, environ: str = "") -> None:
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    between = " ".join("0" * 13)
    (folder / "stat").write_text(f"{pid} (python) a) S 1 {group} 0 {between} {threads} 0 0")
    (folder / "environ").write_bytes(environ.encode() + b"\0")
    (folder / "fd" / "2").write_text("")


def ended(proc: Path, environ: Mapping[str, str]) -> list[tuple[int, int]]:
    killed: list[tuple[int, int]] = []
    end_crowds(proc, lambda *order: killed.append(order), environ)
    return killed


def test_a_group_of_too_many_is_killed_and_says_why(tmp_path: Path) -> None:
    for number in range(3):
        process(tmp_path, 100 + number, JOB, MOST // 2)
    process(tmp_path, 200, OTHER, MOST)
    process(tmp_path, 300, os.getpgrp(), MOST + 1)
    (tmp_path / "self").mkdir()
    (tmp_path / "400").mkdir()  # it ends now
    assert ended(tmp_path, {}) == [(JOB, signal.SIGKILL)]
    said = "".join((tmp_path / str(pid) / "fd" / "2").read_text() for pid in (100, 101, 102))
    assert f"ran {3 * (MOST // 2)} processes and threads" in said


@pytest.mark.parametrize(
    ("environ", "killed"),
    [
        ("RAYLAB_SERVICE=/labs/a:ray-worker-0", True),
        ("RAYLAB_FORK_SERVER_OF=/labs/a", True),
        ("RAYLAB_SERVICE=/labs/a:hub-ann", False),
        ("RAYLAB_FORK_SERVER_OF=/labs/b", False),
        ("HOME=/root", False),
    ],
)
def test_on_plain_processes_only_what_runs_on_this_node_is(
    tmp_path: Path, environ: str, killed: bool
) -> None:
    process(tmp_path, 100, JOB, MOST + 1, environ)
    assert bool(ended(tmp_path, {"RAYLAB_SERVICE": "/labs/a:ray-worker-0"})) == killed


def test_it_looks_once_in_a_while() -> None:
    now = [0.0]
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    watch = watching(sleep, lambda: now[0], lambda: looks.append(now[0]))
    for _ in range(12):
        watch(LOOK_SECONDS / 4)
    assert looks == [LOOK_SECONDS, 2 * LOOK_SECONDS, 3 * LOOK_SECONDS]
