"""`ray start` as the local runtime uses it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.cluster.patches import said_unfit
from lab.errors import PatchError
from raylab_patches import ray_start
from raylab_switches import OFF, UNFIT


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
        (services, "start_ray_process"),
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


# A Ray that is another than the patches expect

LAB = {**ray_start.LOOPBACK, "RAYLAB_REDIS_PASSWORD_FILE": "/p"}
"""Environment of a node of plain processes whose head keeps its state in Redis."""


def test_a_patch_that_does_not_fit_is_off_in_the_node_and_its_log_says_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    environ = {**LAB, OFF: "teardown"}
    problems = {"elastic": "x has no y", "teardown": "is off anyway", "outside": "is not for nodes"}
    ray_start.look_at_ray(environ, lambda: problems)
    assert environ[UNFIT] == "elastic,teardown,outside"
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith("raylab: the patch elastic does not fit Ray 2.")
    assert said[0].endswith(": x has no y")


@pytest.mark.parametrize("name", ["ray_start", "redis_password"])
def test_a_node_that_would_be_open_without_a_patch_does_not_start(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        ray_start.look_at_ray(dict(LAB), lambda: {name: "x has no y"})
    assert ended.value.code == ray_start.REFUSED
    said = capsys.readouterr().err.splitlines()[-1]
    assert f"the patch {name} does not fit Ray" in said
    assert said.endswith("this node does not start")
    with pytest.raises(SystemExit):  # as when labctl has looked before
        ray_start.look_at_ray({**LAB, UNFIT: name})


def test_a_node_for_which_such_a_patch_is_not_or_that_does_without_starts() -> None:
    both = {"ray_start": "x", "redis_password": "y"}
    for given in ({}, {**LAB, OFF: "ray_start,redis_password"}):
        environ = dict(given)
        ray_start.look_at_ray(environ, lambda: both)
        assert environ[UNFIT] == "ray_start,redis_password"


def test_labctl_knows_the_exit_code_and_the_words() -> None:
    assert PatchError.exit_code == ray_start.REFUSED
    lines = [
        "raylab: the patch ray_start does not fit Ray 2.61.0: services has no f",
        "raylab: the patch ray_start does not fit Ray 2.61.0: services has no f; without it Ray would: x",
    ]
    for line in lines:
        error = said_unfit(["something", line])
        assert error is not None
        assert "(services has no f)" in error.message
        assert "every interface" in error.message


@pytest.mark.parametrize(
    ("command", "starts"),
    [
        (["/ray/gcs_server", "--node-ip-address=127.0.0.1", "--redis_address=127.0.0.1:1"], True),
        (["python", "dashboard.py", "--host=localhost", "--gcs-address=[::1]:6379", "--dir=/x"], True),
        (["raylet", '--agent="python a.py --node-ip-address=127.0.0.1"'], True),
        (["python", "monitor.py", "--redis-address=None", "--gcs-address=192.0.2.7:6379"], True),
        (["/ray/gcs_server", "--node-ip-address=192.0.2.7"], False),
        (["python", "server.py", "--host=0.0.0.0"], False),
        (
            ["raylet", "--node_ip_address=127.0.0.1", "--agent=python a.py --node-ip-address=192.0.2.7 -x"],
            False,
        ),
        (["raylet", "--dashboard-host=lab.example"], False),
    ],
)
def test_no_process_starts_with_an_address_that_the_network_reaches(
    capsys: pytest.CaptureFixture[str], command: list[str], starts: bool
) -> None:
    started: list[list[str]] = []
    services = SimpleNamespace(start_ray_process=lambda command, *args, **options: started.append(command))
    ray_start.only_on_loopback(services)
    if starts:
        services.start_ray_process(command, "raylet")
        assert started == [command]
        return
    with pytest.raises(SystemExit) as ended:
        services.start_ray_process(command, "raylet")
    assert (ended.value.code, started) == (ray_start.REFUSED, [])
    assert "does not fit" in capsys.readouterr().err
