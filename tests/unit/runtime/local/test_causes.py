"""Why a service did not start, in words that say what to do."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from lab.errors import PatchError, PortTakenError, ServiceError, WaitTimeoutError
from lab.host.files import size_of
from lab.host.listening import Listening
from lab.runtime import logtail
from lab.runtime.local import output
from lab.services import HEAD, JUPYTER, STORE, worker
from tests.unit.runtime.local.machine import SPEC, FakeProcess, Machine


def failure(machine: Machine, folder: Path) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        machine.runtime(folder).up(SPEC)
    return caught.value


@pytest.mark.parametrize(
    ("service", "name", "port"), [(STORE, "s3", 9000), (HEAD, "gcs", 6379), (JUPYTER, "jupyter", 8888)]
)
def test_a_port_that_was_taken_meanwhile_is_named_with_its_holder(
    machine: Machine, tmp_path: Path, service: str, name: str, port: int
) -> None:
    machine.dies.add(service)
    machine.on_spawn[service] = lambda: machine.taken.add(port)

    with pytest.raises(PortTakenError) as caught:
        machine.runtime(tmp_path).up(SPEC)
    assert caught.value.message == (
        f"{service} cannot serve: its port {port} ({name}) was taken meanwhile by holder of {port}"
    )
    assert not machine.running


def test_a_port_of_another_service_is_not_the_cause(machine: Machine, tmp_path: Path) -> None:
    machine.dies.add(worker(0))
    machine.on_spawn[worker(0)] = lambda: machine.taken.update({9000, 6379, 8265})

    assert failure(machine, tmp_path).message.startswith("ray-worker-0 ended while starting")


@pytest.mark.parametrize(
    ("words", "code", "message", "hint"),
    [
        (
            "Traceback (most recent call last):\n  ...\nOSError: [Errno 28] No space left on device\n",
            1,
            "ray-head ended while starting: no space is left on the disk. Its last lines:\n  Traceback",
            "free some space; the whole log: ",
        ),
        (
            "/usr/bin/python3: No module named jupyterlab.__main__\n",
            1,
            "ray-head ended while starting: the Python package jupyterlab is missing. Its last lines:",
            "`labctl doctor` says what is installed; the whole log: ",
        ),
        (
            "ModuleNotFoundError: No module named 'ray'\n",
            1,
            "ray-head ended while starting: the Python package ray is missing.",
            "labctl doctor",
        ),
        (
            "",
            -signal.SIGKILL,
            "ray-head ended while starting: it was killed (SIGKILL), as the kernel does when memory "
            "runs out. It wrote nothing.",
            "free some memory, see `labctl doctor`; the whole log: ",
        ),
        (
            "x\n",
            -signal.SIGSEGV,
            "ray-head ended while starting: it was ended by SIGSEGV. Its last",
            "the whole",
        ),
        ("x\n", -63, "ray-head ended while starting: it was ended by signal 63. Its last", "the whole"),
        ("x\n", 3, "ray-head ended while starting with exit code 3. Its last lines:\n  x", "the whole log: "),
        ("x\n", None, "ray-head ended while starting. Its last lines:\n  x", "the whole log: "),
    ],
)
def test_the_cause_comes_first(
    machine: Machine, tmp_path: Path, words: str, code: int | None, message: str, hint: str
) -> None:
    machine.dies.add(HEAD)
    machine.last_words[HEAD] = words
    if code is not None:
        machine.exit_codes[HEAD] = code

    error = failure(machine, tmp_path)

    assert error.message.startswith(message)
    assert error.hint.startswith(hint) or hint in error.hint
    assert "ray-head.log" in error.hint


def test_a_node_that_would_be_open_without_a_patch_has_an_error_of_its_own(
    machine: Machine, tmp_path: Path
) -> None:
    machine.dies.add(HEAD)
    machine.exit_codes[HEAD] = PatchError.exit_code
    machine.last_words[HEAD] = (
        "raylab: the patch ray_start does not fit Ray 2.61.0: services has no f; without it Ray would\n"
    )
    with pytest.raises(PatchError, match=r"ray_start .*services has no f"):
        machine.runtime(tmp_path).up(SPEC)


def test_what_an_earlier_process_wrote_is_not_shown(machine: Machine, tmp_path: Path) -> None:
    machine.last_words[HEAD] = "No space left on device, last week\n"
    machine.runtime(tmp_path).up(SPEC)
    machine.runtime(tmp_path).down()
    machine.last_words[HEAD] = ""
    machine.dies.add(HEAD)

    error = failure(machine, tmp_path)

    assert error.message == "ray-head ended while starting. It wrote nothing."


def test_what_a_failed_service_left_behind_is_ended_before_its_ports_are_looked_at(
    machine: Machine, tmp_path: Path
) -> None:
    """A part of the service may hold the port that its leader left."""

    def leave_one_behind() -> None:
        mark = f"{tmp_path / 'raylab'}:{HEAD}"
        machine.running[7] = FakeProcess(7, machine.now, mark, leader=False)

    machine.dies.add(HEAD)
    machine.on_spawn[HEAD] = leave_one_behind

    failure(machine, tmp_path)

    assert machine.services("end")[0] == HEAD
    assert not machine.running


def test_the_last_lines_are_fit_to_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"old\n" + b"\x1b[36m(raylet)\x1b[0m caf\xe9\r\n\n   \n" + b"y" * 1000 + b"\nlast")

    lines = output.last_lines(path, 3, since=4)

    assert lines == ("(raylet) caf\ufffd", "y" * logtail.LINE_LENGTH + "...", "last")
    assert output.last_lines(path, 1) == ("last",)
    assert output.last_lines(tmp_path / "none", 3) == ()
    assert (size_of(path), size_of(tmp_path / "none")) == (len(path.read_bytes()), 0)


@pytest.mark.parametrize("service", [STORE, JUPYTER])
def test_a_service_that_ends_while_a_node_starts_is_noticed_then(
    machine: Machine, tmp_path: Path, service: str
) -> None:
    machine.dies.add(service)
    machine.unready.add(HEAD)
    begin = machine.now

    assert failure(machine, tmp_path).message.startswith(f"{service} ended while starting")
    assert machine.now - begin < 1
    assert worker(0) not in machine.services("spawn")


def test_a_head_that_goes_on_without_the_port_of_its_dashboard_is_not_waited_for(
    machine: Machine, tmp_path: Path
) -> None:
    machine.unready.add(HEAD)
    machine.on_spawn[HEAD] = lambda: machine.listeners.update({8265: (7,)})
    begin = machine.now

    with pytest.raises(PortTakenError) as caught:
        machine.runtime(tmp_path).up(SPEC)
    assert caught.value.message == (
        "ray-head cannot serve: its port 8265 (dashboard) was taken meanwhile by holder of 8265"
    )
    assert machine.now - begin == pytest.approx(5, abs=1)
    assert not machine.running


def test_a_service_that_holds_its_own_ports_is_waited_for(machine: Machine, tmp_path: Path) -> None:
    machine.unready.add(HEAD)
    machine.on_spawn[HEAD] = lambda: machine.listeners.update({8265: (7, machine.pid_of(HEAD))})

    with pytest.raises(WaitTimeoutError, match=r"ray-head .*120 s"):
        machine.runtime(tmp_path).up(SPEC)


def test_a_lab_that_the_network_reaches_is_not_left_running(machine: Machine, tmp_path: Path) -> None:
    def listens() -> None:
        machine.open_ports += [
            Listening("127.0.0.1", 6379, machine.pid_of(HEAD)),
            Listening("0.0.0.0%lo", 7000, machine.pid_of(HEAD)),
            Listening("0.0.0.0", 22, 1),
            Listening("::", 7001),
            Listening("0.0.0.0", 7002, machine.pid_of(HEAD)),
        ]

    machine.on_spawn[worker(0)] = listens
    assert (
        failure(machine, tmp_path).message
        == "ray-head listens on 0.0.0.0 port 7002: the network can reach it"
    )
    assert not machine.running


def test_what_listens_where_a_lab_is_repaired_may_be_a_job_of_its_user(
    machine: Machine, tmp_path: Path
) -> None:
    machine.runtime(tmp_path).up(SPEC)
    machine.open_ports.append(Listening("0.0.0.0", 7002, machine.pid_of(HEAD)))
    machine.die(worker(0))
    assert machine.runtime(tmp_path).up(SPEC).healthy
