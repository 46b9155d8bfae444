"""Ray's head with its state in Redis: the password is on no command line."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from raylab_patches.ray_start import REFUSED
from raylab_patches.redis_password import PASSWORD_FILE, prepare

HEAD = ["ray", "start", "--head"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "redis.password"
    file.write_text("secret\n")
    return {PASSWORD_FILE: str(file)}


def played() -> tuple[Any, list[tuple[list[str], dict[str, Any]]]]:
    """Ray's module of services, and what it started: commands and their environment."""
    started: list[tuple[list[str], dict[str, Any]]] = []

    def start_ray_process(command: list[str], kind: str, env_updates: Any = None) -> None:
        started.append((command, dict(env_updates or {})))

    def start_raylet(gcs: str, redis_password: str | None = None) -> None:
        services.start_ray_process(["raylet", gcs, str(redis_password)], "raylet")

    services = SimpleNamespace(
        start_ray_process=start_ray_process,
        start_raylet=start_raylet,
        find_gcs_addresses=lambda: {"127.0.0.1:6379"},
    )
    return services, started


def test_rays_processes_do_not_show_the_password(environment: dict[str, str]) -> None:
    services, started = played()
    assert prepare(HEAD, services, environment) == [*HEAD, "--redis-password=secret"]
    services.start_ray_process(
        ["gcs", "--redis_password=secret", "--port=1"], "gcs_server", env_updates={"A": "b"}
    )
    services.start_raylet("host:1", redis_password="secret")
    services.start_ray_process(["dashboard"], "dashboard")
    assert started == [
        (
            ["gcs", "--fromenv=redis_password", "--port=1"],
            {"A": "b", "FLAGS_redis_password": "secret"},
        ),
        (["raylet", "host:1", "None"], {}),
        (["dashboard"], {}),
    ]


def test_workers_that_outlived_the_head_do_not_keep_it_from_starting(environment: dict[str, str]) -> None:
    services, _ = played()
    prepare(HEAD, services, environment)
    assert services.find_gcs_addresses() == set()
    services.find_gcs_addresses.cache_clear()


def test_with_the_patch_off_ray_hands_the_password_on_as_it_does(environment: dict[str, str]) -> None:
    services, _ = played()
    before = dict(vars(services))
    argv = prepare(HEAD, services, {**environment, "RAYLAB_PATCHES_OFF": "redis_password"})
    assert argv == [*HEAD, "--redis-password=secret"]
    assert vars(services) == before


def test_other_nodes_and_other_labs_need_none(environment: dict[str, str]) -> None:
    worker = ["ray", "start", "--address=ray-head:6379"]
    for argv, given in ((worker, environment), (HEAD, {})):
        services, started = played()
        start = services.start_ray_process
        assert prepare(argv, services, given) == argv
        assert services.start_ray_process is start
        assert started == []


def test_no_process_starts_with_the_password_in_another_form(
    environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    services, started = played()
    prepare(HEAD, services, environment)
    with pytest.raises(SystemExit) as ended:
        services.start_ray_process(["gcs", "--redis_url=redis://:secret@host"], "gcs_server")
    assert (ended.value.code, started) == (REFUSED, [])
    said = capsys.readouterr().err
    assert "redis_password" in said
    assert "secret" not in said
