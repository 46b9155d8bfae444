"""How Ray comes to start the launcher."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from forkserver import commands

WAY = [sys.executable, "-I", "-S", commands.LAUNCHER, "/forks"]


def test_a_python_goes_through_the_launcher() -> None:
    command = [sys.executable, "-u", "/ray/monitor.py", "--logs-dir=/x"]
    assert commands.rewritten(command, "/forks") == [*WAY, "node", *command]


def test_a_raylet_is_told_to_start_its_workers_and_agents_so() -> None:
    raylet = [
        *("/ray/raylet", "--node_id=1"),
        f"--python_worker_command={sys.executable} setup_worker.py default_worker.py A PLACEHOLDER",
        f"--dashboard_agent_command={sys.executable} -u agent.py",
        f"--runtime_env_agent_command={sys.executable} -u main.py",
        "--java_worker_command=java -jar x",
    ]
    way = " ".join(WAY)
    assert commands.rewritten(raylet, "/forks") == [
        *("/ray/raylet", "--node_id=1"),
        f"--python_worker_command={way} train,node {raylet[2].partition('=')[2]}",
        f"--dashboard_agent_command={way} node {raylet[3].partition('=')[2]}",
        f"--runtime_env_agent_command={way} node {raylet[4].partition('=')[2]}",
        "--java_worker_command=java -jar x",
    ]


def test_a_path_with_a_blank_stays_one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/my lab/python")
    monkeypatch.setattr(commands, "LAUNCHER", "/my lab/launcher.py")
    argv = commands.rewritten(
        ["raylet", '--python_worker_command="/my lab/python" setup_worker.py'], "/forks"
    )
    way = '"/my lab/python" -I -S "/my lab/launcher.py" /forks train,node "/my lab/python" setup_worker.py'
    assert argv == ["raylet", f"--python_worker_command={way}"]


def test_what_is_no_python_of_ours_stays_as_it_is() -> None:
    for command in (["/ray/gcs_server", "--x"], ["raylet", "--python_worker_command=/other/python x.py"], []):
        assert commands.rewritten(command, "/forks") == command


def test_ray_preloads_no_allocator_into_what_is_forked_and_still_into_what_is_not() -> None:
    started: list[tuple[list[str], Any]] = []

    def start(command: list[str], kind: str) -> None:
        started.append((command, services.propagate_jemalloc_env_var()))

    services = SimpleNamespace(
        start_ray_process=start, propagate_jemalloc_env_var=lambda: {"LD_PRELOAD": "jemalloc.so"}
    )
    commands.install(services, "/forks")
    commands.install(services, "/forks")
    services.start_ray_process([sys.executable, "x.py"], "monitor")
    services.start_ray_process(["/ray/gcs_server"], "gcs_server")
    assert started == [
        ([*WAY, "node", sys.executable, "x.py"], {}),
        (["/ray/gcs_server"], {"LD_PRELOAD": "jemalloc.so"}),
    ]


def test_the_dashboards_own_fork_server_is_forked_and_other_helpers_of_multiprocessing_are_not() -> None:
    started: list[tuple[Any, ...]] = []

    def spawn(*call: Any) -> int:
        started.append(call)
        return 7

    util = SimpleNamespace(spawnv_passfds=spawn)
    commands.lead_forkserver(util, "/forks")
    serve = [sys.executable, "-c", "from multiprocessing.forkserver import main; main(4, 5, [], **{})"]
    track = [sys.executable, "-c", "from multiprocessing.resource_tracker import main;main(3)"]
    assert util.spawnv_passfds(sys.executable, serve, [4, 5]) == 7
    assert util.spawnv_passfds(sys.executable, track, [3]) == 7
    assert started == [(sys.executable, [*WAY, "node", *serve], [4, 5]), (sys.executable, track, [3])]
