"""The probe's command that signals one rank's process: what it takes for a rank, and what it answers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping

import psutil
import pytest

from raylab_faults import rank

NODE = {"RAYLAB_SERVICE_NAME": "ray-worker-0", "RAYLAB_SERVICE": "/labs/a:ray-worker-0"}
TITLE = "ray::RayTrainWorker.run_train_fn"


class Process:
    """A process as psutil shows it. `environment` None: it may not be read."""

    def __init__(
        self,
        title: str = TITLE,
        environment: Mapping[str, str] | None = None,
        parents: tuple[Process, ...] = (),
        status: str = psutil.STATUS_SLEEPING,
        name: str = "python",
    ) -> None:
        self.title, self.environment, self.above, self.state = title, environment, parents, status
        self.pid, self.info = 5, {"name": name}

    def status(self) -> str:
        return self.state

    def cmdline(self) -> list[str]:
        return [self.title + " " * 40]

    def parents(self) -> list[Process]:
        return list(self.above)

    def environ(self) -> Mapping[str, str]:
        if self.environment is None:
            raise psutil.AccessDenied(1)
        return self.environment


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> dict[int, Process]:
    """Those that there are, by their ids."""
    known: dict[int, Process] = {}

    def process(pid: int) -> Process:
        if pid not in known:
            raise psutil.NoSuchProcess(pid)
        return known[pid]

    monkeypatch.setattr(psutil, "Process", process)
    monkeypatch.setattr(psutil, "process_iter", lambda attrs: list(known.values()))
    return known


def test_a_rank_of_this_node_is_one(processes: dict[int, Process]) -> None:
    processes[5] = Process(environment=NODE)
    assert rank.problem(5, NODE) == ""


@pytest.mark.parametrize("environment", [None, {}, {"PATH": "/bin"}])
def test_a_rank_whose_title_hides_its_environment_is_known_by_its_parents(
    processes: dict[int, Process], environment: Mapping[str, str] | None
) -> None:
    processes[5] = Process(environment=environment, parents=(Process("raylet", NODE), Process("init", {})))
    assert rank.problem(5, NODE) == ""


def test_a_rank_that_a_fork_server_made_is_known_by_the_launcher_that_stands_for_it(
    processes: dict[int, Process],
) -> None:
    server = Process("server", {"RAYLAB_SERVICE_NAME": ""})
    processes[5] = Process(environment={"RAYLAB_SERVICE_NAME": ""}, parents=(server,))
    processes[4] = Process("launcher", NODE, name="fork:5")
    processes[3] = Process("launcher", {"RAYLAB_SERVICE_NAME": "ray-worker-1"}, name="fork:55")
    assert rank.problem(5, NODE) == ""
    assert "ray-worker-0, not on this one" in rank.problem(5, {**NODE, "RAYLAB_SERVICE_NAME": "ray-worker-1"})


@pytest.mark.parametrize(
    ("process", "why"),
    [
        (Process("bash", NODE), "process 5 is not a rank of Ray Train: bash"),
        (Process("ray::JobSupervisor", NODE), "process 5 is not a rank of Ray Train: ray::JobSupervisor"),
        (Process(environment=NODE, status=psutil.STATUS_ZOMBIE), "process 5 has ended"),
        (
            Process(environment={**NODE, "RAYLAB_SERVICE_NAME": "ray-worker-1"}),
            "process 5 is a rank on ray-worker-1, not on this one",
        ),
        (  # the same node's name in another lab on this machine
            Process(environment={**NODE, "RAYLAB_SERVICE": "/labs/b:ray-worker-0"}),
            "process 5 is a rank on ray-worker-0, not on this one",
        ),
        (Process(environment={}), "process 5 is a rank on no node, not on this one"),
    ],
)
def test_anything_else_is_refused_with_the_reason(
    processes: dict[int, Process], process: Process, why: str
) -> None:
    processes[5] = process
    assert rank.problem(5, NODE) == why


def test_a_process_that_is_not_there_is_told_and_has_gone(processes: dict[int, Process]) -> None:
    assert rank.problem(5, NODE) == "there is no process 5"
    assert rank.gone(5)


def test_outside_of_a_node_nothing_is_a_rank(processes: dict[int, Process]) -> None:
    processes[5] = Process(environment=NODE)
    assert rank.problem(5, {}) == "this is not the environment of a node"


@pytest.mark.parametrize(
    ("action", "expected"),
    [("kill", signal.SIGKILL), ("hang", signal.SIGSTOP), ("thaw", signal.SIGCONT)],
)
def test_each_action_sends_its_signal_and_says_so(
    processes: dict[int, Process],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    action: str,
    expected: signal.Signals,
) -> None:
    processes[5] = Process(environment=NODE)
    monkeypatch.setattr(rank, "problem", {5: ""}.__getitem__)
    sent: list[tuple[int, int]] = []

    assert rank.main([action, "5"], lambda pid, number: sent.append((pid, number))) == 0

    assert sent == [(5, expected)]
    document = json.loads(capsys.readouterr().out)
    assert document.pop("first") <= document.pop("last")
    assert document == {"pid": 5, "done": True, "problem": ""}


def test_what_is_no_rank_gets_no_signal(capsys: pytest.CaptureFixture[str]) -> None:
    sent: list[int] = []
    assert rank.main(["kill", str(os.getpid())], lambda pid, _: sent.append(pid)) == rank.NOT_A_RANK
    assert not sent
    assert "is not a rank of Ray Train" in json.loads(capsys.readouterr().out)["problem"]


def test_thawing_what_has_ended_is_done(
    processes: dict[int, Process], capsys: pytest.CaptureFixture[str]
) -> None:
    assert rank.main(["thaw", "5"]) == 0
    assert json.loads(capsys.readouterr().out)["done"]


@pytest.mark.parametrize(
    "process",
    [Process("bash", {"PATH": "/bin"}), Process(environment={**NODE, "RAYLAB_SERVICE_NAME": "ray-worker-1"})],
)
def test_thawing_a_process_that_is_no_rank_of_this_node_is_done_without_a_signal(
    processes: dict[int, Process],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    process: Process,
) -> None:
    processes[5] = process
    for name, value in NODE.items():
        monkeypatch.setenv(name, value)
    sent: list[int] = []

    assert rank.main(["thaw", "5"], lambda pid, _: sent.append(pid)) == 0
    assert json.loads(capsys.readouterr().out) == {"pid": 5, "done": True, "problem": ""}
    for action in ("hang", "kill"):
        assert rank.main([action, "5"], lambda pid, _: sent.append(pid)) == rank.NOT_A_RANK
    assert not sent


def test_thawing_outside_of_a_node_is_refused(
    processes: dict[int, Process], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    processes[5] = Process(environment=NODE)
    for name in NODE:
        monkeypatch.delenv(name, raising=False)
    assert rank.main(["thaw", "5"], lambda pid, number: None) == rank.NOT_A_RANK
    assert "not the environment of a node" in json.loads(capsys.readouterr().out)["problem"]


def test_a_signal_that_cannot_be_sent_has_its_own_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def send(pid: int, number: int) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(rank, "problem", lambda pid: "")
    assert rank.main(["kill", "5"], send) == rank.NOT_SENT
    assert "SIGKILL could not be sent to process 5" in json.loads(capsys.readouterr().out)["problem"]


@pytest.mark.parametrize("argv", [[], ["kill"], ["kill", "x"], ["end", "5"], ["kill", "5", "6"]])
def test_a_wrong_command_line_does_nothing(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert rank.main(argv) == 2
    assert "python -m raylab_faults.rank" in capsys.readouterr().out


def test_a_start_time_stays_the_same_and_differs_between_processes() -> None:
    assert rank.start_time(os.getpid()) == rank.start_time(os.getpid()) != rank.start_time(1)
