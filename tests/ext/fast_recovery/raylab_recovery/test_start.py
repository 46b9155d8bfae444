"""What fast recovery does where a node starts."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from raylab_patches import ray_start
from raylab_recovery import start


def test_in_a_container_ray_starts_as_it_is_but_for_where_its_processes_come_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ray._private import services
    from ray.scripts import scripts

    from forkserver import server

    beside: list[str] = []
    monkeypatch.setattr(server, "start_beside", lambda folder, application: beside.append(folder))
    for name in ("start_ray_process", "resolve_ip_for_localhost", "find_bootstrap_address"):
        monkeypatch.setattr(services, name, getattr(services, name))
    ordinary = services.resolve_ip_for_localhost
    for name in ray_start.LOOPBACK:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAYLAB_FORK_FOLDER", "/tmp/forks")
    monkeypatch.setattr("sys.argv", ["node", "ray", "start", "--head"])
    seen: list[Any] = []
    monkeypatch.setattr(scripts, "main", lambda: seen.append(list(sys.argv)))

    ray_start.main()

    assert seen == [["node", "start", "--head"]]
    assert beside == ["/tmp/forks"]
    assert hasattr(services.start_ray_process, "forkserver")
    assert services.resolve_ip_for_localhost is ordinary


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"RAYLAB_FORK_FOLDER": "/f"}, "/f"),
        ({"RAYLAB_FORK_FOLDER": "/f", "RAYLAB_PATCHES_OFF": "elastic"}, "/f"),
        ({"RAYLAB_FORK_FOLDER": "/f", "RAYLAB_PATCHES_OFF": "elastic,forks"}, ""),
        ({}, ""),
    ],
)
def test_a_switch_turns_the_fork_server_off(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], folder: str
) -> None:
    for name in ("RAYLAB_FORK_FOLDER", "RAYLAB_PATCHES_OFF"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", "linux")
    assert start.fork_folder() == folder
    monkeypatch.setattr(sys, "platform", "darwin")
    assert start.fork_folder() == ""
