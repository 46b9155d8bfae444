"""`ray start` as the local runtime uses it."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from raylab_patches import ray_start


def test_a_head_starts_on_its_address_although_a_raylet_of_the_one_before_still_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ray._private import ray_constants, services
    from ray.scripts import scripts

    seen: list[Any] = []
    for module, name in (
        (ray_constants, "ENABLE_RAY_CLUSTER"),
        (ray_constants, "DEFAULT_RUNTIME_ENV_DIR_NAME"),
        (services, "resolve_ip_for_localhost"),
        (services, "find_bootstrap_address"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name))  # put back afterwards
    monkeypatch.setattr("sys.argv", ["ray", "start", "--head"])
    for name, value in ray_start.LOOPBACK.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(scripts, "main", lambda: seen.append(services.find_bootstrap_address("/tmp/ray")))

    ray_start.main()

    assert seen == [None]
    assert services.resolve_ip_for_localhost("127.0.0.1") == "127.0.0.1"


def test_with_the_patch_off_nodes_of_one_host_start_as_ray_starts_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ray._private import services
    from ray.scripts import scripts

    ordinary = services.resolve_ip_for_localhost, services.find_bootstrap_address
    for name, value in {**ray_start.LOOPBACK, "RAYLAB_PATCHES_OFF": "ray_start"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["ray", "start", "--head"])
    monkeypatch.setattr(scripts, "main", lambda: None)

    ray_start.main()

    assert (services.resolve_ip_for_localhost, services.find_bootstrap_address) == ordinary


def test_in_a_container_ray_starts_as_it_is_but_for_where_its_processes_come_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ray._private import services
    from ray.scripts import scripts

    from raylab_forks import server

    beside: list[str] = []
    monkeypatch.setattr(server, "start_beside", beside.append)
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
    assert hasattr(services.start_ray_process, "raylab")
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
    assert ray_start.fork_folder() == folder
    monkeypatch.setattr(sys, "platform", "darwin")
    assert ray_start.fork_folder() == ""
