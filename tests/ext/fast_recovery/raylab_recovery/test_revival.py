"""Nodes that are started again: lives that the test ends, heads that it takes away."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from raylab_recovery import revival
from raylab_recovery.revival import MOST_ENDS, STARTS, WINDOW_SECONDS, Ends, Keeper, Life, Pulse

SESSION = "session_1"


class Child:
    """The process of a life: it runs until `ends`."""

    number = 1

    def __init__(self, kept_node: KeeperNode, *, up_at: float = 1.0) -> None:
        self._world, self._up_at = kept_node, up_at
        self.code: int | None = None
        self.sent: list[int] = []

    def ended(self) -> int | None:
        return self.code

    def said(self) -> str:
        return SESSION if self._world.now >= self._up_at else ""

    def send(self, number: int) -> None:
        self.sent.append(number)
        self.code = -number


class KeeperNode:
    """A keeper's node, its head, and the time; `plan` is what happens when."""

    def __init__(self, *, head: bool, shared: bool = False) -> None:
        self.now, self.session = 0.0, SESSION
        self.plan: dict[float, Any] = {}
        self.keeper = Keeper(
            lambda: self.session, head=head, shared=shared, clock=lambda: self.now, sleep=self._sleep
        )
        self.child = Child(self)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        assert self.now < 10_000.0, "this never ends"
        for at in sorted(at for at in self.plan if at <= self.now):
            self.plan.pop(at)()

    def end(self, code: int) -> None:
        self.child.code = code

    def follow(self) -> Life:
        return self.keeper.follow(self.child)  # type: ignore[arg-type]

    def head_is(self, session: str) -> None:
        self.session = session


def up(code: int = 1, number: int = 1) -> Life:
    return Life(number, SESSION, code)


# Head


def test_a_head_that_was_up_is_started_again_whatever_ended_it() -> None:
    for code in (1, 0, -9, 137):
        kept_node = KeeperNode(head=True)
        kept_node.plan[60.0] = lambda ended=code, made=kept_node: made.end(ended)
        life = kept_node.follow()
        assert life == Life(1, SESSION, code)
        assert kept_node.keeper.again(life)


def test_a_node_that_never_came_up_ends_so_that_who_started_it_hears_of_it() -> None:
    for head in (True, False):
        kept_node = KeeperNode(head=head)
        kept_node.plan[0.5] = lambda made=kept_node: made.end(1)
        life = kept_node.follow()
        assert life.session == ""
        assert not kept_node.keeper.again(life)


def test_a_start_after_a_death_that_fails_is_tried_again() -> None:
    kept_node = KeeperNode(head=True)
    assert kept_node.keeper.again(up())
    assert kept_node.keeper.again(Life(2, "", 1))


def test_a_head_that_keeps_dying_is_given_up_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    kept_node = KeeperNode(head=True)
    assert [kept_node.keeper.again(up(number=number)) for number in range(1, MOST_ENDS + 2)] == [
        *[True] * MOST_ENDS,
        False,
    ]
    assert "it stays down" in capsys.readouterr().err


def test_deaths_of_long_ago_do_not_count() -> None:
    ends = Ends()
    for number in range(3 * MOST_ENDS):
        assert ends.pause(number * WINDOW_SECONDS) == 0.5
    assert [ends.pause(1e6 + number) for number in range(MOST_ENDS + 1)] == [0.5, 1.0, 2.0, 4.0, 8.0, None]


def test_a_node_that_was_told_to_end_stays_down() -> None:
    for head in (True, False):
        kept_node = KeeperNode(head=head)
        kept_node.keeper.stopping = True
        assert not kept_node.keeper.again(up(-15))


def test_a_node_that_is_told_to_end_while_it_waits_for_its_start_does_not_start() -> None:
    kept_node = KeeperNode(head=True)
    kept_node.plan[0.2] = lambda: setattr(kept_node.keeper, "stopping", True)
    assert not kept_node.keeper.again(up())


# Workers


def test_a_worker_that_fails_while_its_head_is_there_stays_down() -> None:
    kept_node = KeeperNode(head=False)
    kept_node.plan[60.0] = lambda: kept_node.end(-9)
    assert not kept_node.keeper.again(kept_node.follow())
    assert kept_node.child.sent == []


def test_a_worker_of_a_class_that_fails_while_its_head_is_there_is_started_again() -> None:
    kept_node = KeeperNode(head=False, shared=True)
    kept_node.plan[60.0] = lambda: kept_node.end(-9)
    assert kept_node.keeper.again(kept_node.follow())


def test_a_worker_whose_head_is_another_cluster_is_ended_and_started_again() -> None:
    kept_node = KeeperNode(head=False)
    kept_node.plan[60.0] = lambda: kept_node.head_is("")  # it is away for a while
    kept_node.plan[63.0] = lambda: kept_node.head_is("session_2")
    life = kept_node.follow()
    assert life.code == -signal.SIGKILL
    assert kept_node.now < 67.0
    assert kept_node.keeper.again(life)


def test_a_worker_whose_head_is_silent_runs_on() -> None:
    kept_node = KeeperNode(head=False)
    kept_node.plan[60.0] = lambda: kept_node.head_is("")
    kept_node.plan[900.0] = lambda: kept_node.head_is(SESSION)
    kept_node.plan[960.0] = lambda: kept_node.end(0)
    assert kept_node.follow().code == 0
    assert kept_node.child.sent == []


def test_a_worker_that_gave_its_head_up_is_started_once_that_is_back_as_the_same_cluster() -> None:
    kept_node = KeeperNode(head=False)
    kept_node.head_is("")
    kept_node.plan[100.0] = lambda: kept_node.head_is(SESSION)
    assert kept_node.keeper.again(up())
    assert 100.0 <= kept_node.now < 105.0


def test_a_worker_that_waits_for_its_head_ends_when_it_is_told_to() -> None:
    kept_node = KeeperNode(head=False)
    kept_node.head_is("")
    kept_node.plan[50.0] = lambda: setattr(kept_node.keeper, "stopping", True)
    assert not kept_node.keeper.again(up())


# What the keeper and a life say to each other


def test_a_life_says_its_session_once() -> None:
    read, write = os.pipe()
    child = revival.Child(1, 0, read)
    assert child.said() == ""
    pulse = Pulse(1, write)
    pulse.beat(SESSION)
    pulse.beat(SESSION)
    assert (child.said(), child.said()) == (SESSION, "")
    child.close()


def test_the_session_of_the_cluster_is_what_the_dashboard_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("secret\n")
    environ = {
        "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token"),
        "RAY_API_SERVER_ADDRESS": "http://ray-head:8265",
    }
    asked: list[Any] = []

    def get(url: str, headers: Any) -> bytes:
        asked.append((url, headers["Authorization"]))
        return json.dumps({"session_name": SESSION}).encode()

    monkeypatch.setattr(revival, "ask", get)
    assert revival.session_of(environ) == SESSION
    assert asked == [("http://ray-head:8265/api/version", "Bearer secret")]

    def refuses(url: str, headers: Any) -> bytes:
        raise ConnectionRefusedError

    monkeypatch.setattr(revival, "ask", refuses)
    assert revival.session_of(environ) == ""
    assert revival.session_of({}) == ""


def test_with_the_patch_off_a_node_is_started_as_ray_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fork", lambda: pytest.fail("forked"))
    assert (
        revival.keep(["start"], {"RAYLAB_SERVICE_NAME": "ray-head", "RAYLAB_PATCHES_OFF": "revival"}) is None
    )
    assert revival.keep(["start"], {}) is None


def test_a_head_that_was_started_again_is_labelled_with_how_often() -> None:
    assert revival.labels(["start", "--head"], 1) == ["start", "--head"]
    assert revival.labels(["start"], 2) == ["start"], "a worker was started again for its head's sake"
    assert revival.labels(["start", "--head"], 3) == ["start", "--head", f"--labels={STARTS}=3"]


# Parts of a head


class Process:
    """A process of Ray's, which has ended if it has an exit code."""

    def __init__(self) -> None:
        self.returncode: int | None = None


class Node:
    """Ray's class of a node: processes that run, have ended, or are started."""

    session_name = SESSION

    def __init__(self) -> None:
        self.all_processes = {
            name: Process() for name in ("gcs_server", "dashboard", "log_monitor", "raylet")
        }
        self.first = dict(self.all_processes)
        self._ray_params = SimpleNamespace(include_dashboard=None)
        self._gcs_address: str | None = "127.0.0.1:6379"
        self._gcs_client: object | None = object()
        self.started: list[str] = []

    def dead_processes(self) -> list[tuple[str, Any]]:
        return [
            (name, process) for name, process in self.all_processes.items() if process.returncode is not None
        ]

    def end(self, *names: str, code: int = -9) -> None:
        for name in names:
            self.all_processes[name].returncode = code

    def start_gcs_server(self) -> None:
        assert (self._gcs_address, self._gcs_client) == (None, None)
        self._start("gcs_server")
        self._gcs_address = "127.0.0.1:6379"

    def start_api_server(self, *, include_dashboard: bool | None, raise_on_failure: bool) -> None:
        assert raise_on_failure, "a head without a dashboard takes no jobs: it is started again as a whole"
        assert self._gcs_address, "the dashboard asks the control store as it starts"
        self._start("dashboard")

    def start_log_monitor(self) -> None:
        self._start("log_monitor")

    def _start(self, name: str) -> None:
        assert name not in self.all_processes
        self.all_processes[name] = Process()
        self.started.append(name)


def played(*, kept: bool) -> tuple[Any, list[str]]:
    said: list[str] = []
    node = type("Played", (Node,), {})
    revival.install(node, SimpleNamespace(beat=said.append), kept=kept)  # type: ignore[arg-type]
    return node(), said


def test_a_control_store_whose_state_outlives_it_is_started_again_alone() -> None:
    node, _ = played(kept=True)
    node.end("gcs_server")
    assert node.dead_processes() == []
    assert node.started == ["gcs_server"]
    assert node.all_processes["raylet"] is node.first["raylet"]


def test_a_control_store_that_keeps_its_state_itself_ends_the_node() -> None:
    node, _ = played(kept=False)
    node.end("gcs_server", "dashboard")
    assert {name for name, _ in node.dead_processes()} == {"gcs_server", "dashboard"}
    assert node.started == []


@pytest.mark.parametrize("kept", [True, False])
def test_a_dashboard_that_died_does_not_end_the_cluster(kept: bool) -> None:
    node, _ = played(kept=kept)
    node.end("dashboard")
    assert node.dead_processes() == []
    assert node.started == ["dashboard"]


def test_of_several_the_control_store_comes_first() -> None:
    node, _ = played(kept=True)
    node.end("log_monitor", "dashboard", "gcs_server")
    assert node.dead_processes() == []
    assert node.started == ["gcs_server", "dashboard", "log_monitor"]


def test_a_raylet_that_dies_with_them_ends_the_node() -> None:
    node, _ = played(kept=True)
    node.end("gcs_server", "raylet")
    assert {name for name, _ in node.dead_processes()} == {"gcs_server", "raylet"}
    assert node.started == []


@pytest.mark.parametrize("code", [0, -15, 143])
def test_what_was_ended_in_order_stays_ended(code: int) -> None:
    node, _ = played(kept=True)
    node.end("log_monitor", code=code)
    assert [name for name, _ in node.dead_processes()] == ["log_monitor"]
    assert node.started == []


def test_a_part_that_keeps_dying_ends_the_node() -> None:
    node, _ = played(kept=True)
    for _ in range(MOST_ENDS):
        node.end("gcs_server")
        assert node.dead_processes() == []
    node.end("gcs_server")
    assert [name for name, _ in node.dead_processes()] == ["gcs_server"]


def test_a_node_is_up_once_its_end_is_looked_for() -> None:
    node, said = played(kept=False)
    node.dead_processes()
    assert said == [SESSION]


def test_rays_node_is_as_the_patch_expects_it() -> None:
    pytest.importorskip("ray")
    from ray._private import ray_constants
    from ray._private.node import Node as RaysNode

    constants = vars(ray_constants)
    assert {constants[f"PROCESS_TYPE_{name.upper()}"] for name in revival.PARTS} == set(revival.PARTS)
    starts = ("gcs_server", "api_server", "monitor", "log_monitor", "ray_client_server")
    assert all(callable(getattr(RaysNode, f"start_{name}")) for name in starts)
    assert callable(RaysNode.dead_processes)
