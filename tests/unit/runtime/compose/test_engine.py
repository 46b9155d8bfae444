"""What is asked of `docker`, how its answers are read, and how it fails."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.errors import EngineError, RefusedError, WaitTimeoutError
from lab.runtime.compose.causes import no_answer
from lab.runtime.compose.engine import DockerEngine, clean_environment
from lab.runtime.compose.inspected import container, seconds
from lab.topology import Struck

Answers = dict[str, tuple[int, str, str]]


def engine(answers: Answers) -> DockerEngine:
    """An engine whose `docker` answers by the beginning of its arguments: exit code, stdout, stderr."""

    def run(argv: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        words = " ".join(argv[1:])
        code, out, err = next((a for key, a in answers.items() if words.startswith(key)), (0, "", ""))
        return subprocess.CompletedProcess(argv, code, out, err)

    return DockerEngine((sys.executable,), run)


AROUND = Struck(100.0, 103.0)


def event_line(action: str, at: float, actor: str, **attributes: str) -> str:
    """An event of the engine."""
    names = {"Action": action, "Actor": {"ID": actor, "Attributes": attributes}}
    return json.dumps({**names, "timeNano": int(at * 1e9)})


@pytest.mark.parametrize(
    ("answer", "struck"),
    [
        ((0, "\n".join([event_line("kill", 102.5, "abc"), event_line("die", 102.75, "abc"),
                         event_line("kill", 101.0, "other"),
                         event_line("disconnect", 102.8, "net", container="abc")]), ""),
         Struck(100.0, 102.75)),
        ((0, event_line("start", 102.5, "abc") + "\nno JSON\n{}\n", ""), AROUND),
        ((1, "", "Cannot connect to the Docker daemon"), AROUND),
    ],
)  # fmt: skip
def test_the_engine_knows_until_when_it_killed_a_container_and_tells_of_it_later(
    answer: tuple[int, str, str], struck: Struck
) -> None:
    asked = engine({"events --since 100.000000 --until 103.000000": answer})
    assert asked.struck("abc", ("kill", "die"), AROUND) == struck


def test_a_network_tells_of_the_container_that_was_taken_off_it() -> None:
    line = event_line("disconnect", 101.5, "net", container="abc")
    assert engine({"events": (0, line, "")}).struck("abc", ("disconnect",), AROUND) == Struck(100.0, 101.5)


FINE: Answers = {"version": (0, "20.10.24\n", ""), "compose version": (0, "2.26.1-4\n", "")}


@pytest.mark.parametrize("version", ["2.20.0", "v2.26.1-4", "5.0.1"])
def test_an_engine_with_a_usable_compose_is_accepted(version: str) -> None:
    engine({**FINE, "compose version": (0, version, "")}).check()


@pytest.mark.parametrize(
    ("answers", "message", "hint"),
    [
        ({"compose version": (1, "", "docker: 'compose' is not a docker command.")}, "not its Compose plugin",
         "docker-compose-plugin"),
        ({"compose version": (0, "2.6.0", "")}, r"Compose 2\.6\.0 is too old: 2\.20 is needed", "update"),
        ({"version": (1, "", "Cannot connect to the Docker daemon. Is the docker daemon running?")},
         "the Docker Engine is not running", "systemctl start docker"),
        ({"version": (1, "", "permission denied while trying to connect to the docker API at unix:///x.sock")},
         "this user may not use the Docker Engine", "usermod"),
        ({"version": (1, "", "something new")}, "docker failed: something new", "doctor"),
    ],
)  # fmt: skip
def test_what_keeps_docker_from_being_used_is_said_with_its_cure(
    answers: Answers, message: str, hint: str
) -> None:
    with pytest.raises(EngineError, match=message) as caught:
        engine({**FINE, **answers}).check()
    assert hint in caught.value.hint


def test_a_missing_docker_is_said() -> None:
    with pytest.raises(EngineError, match="`no-such-docker`"):
        DockerEngine(("no-such-docker",)).check_engine()


def test_an_engine_that_hangs_is_an_error() -> None:
    asked = []

    def run(argv: Sequence[str], *, timeout: float, **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(timeout)
        raise subprocess.TimeoutExpired(argv, timeout)

    hanging = DockerEngine((sys.executable,), run, timeout=5.0)
    with pytest.raises(EngineError, match="within 5 s"):
        hanging.check_engine()
    with pytest.raises(WaitTimeoutError, match=r"`sleep 9` .*1 s"):
        hanging.execute("c", ["sleep", "9"], 1)
    assert asked == [5.0, 1]


ROW = {
    "Id": "abc",
    "RestartCount": 2,
    "State": {
        "Status": "exited",
        "ExitCode": 137,
        "OOMKilled": True,
        "Error": "",
        "StartedAt": "2026-11-21T00:33:26.531790123Z",
        "Health": {"Status": "unhealthy", "Log": [{"Output": "a\n"}, {"Output": "node x is\nnot alive\n"}]},
    },
    "Config": {"Image": "x:1", "Labels": {"com.docker.compose.service": "ray-head", "io.raylab.lab": "lab"}},
}


def test_a_container_is_read_from_inspect() -> None:
    asked = engine({"ps": (0, "abc\n", ""), "inspect": (0, json.dumps([ROW]), "")})
    (container,) = asked.containers("raylab-lab")
    assert (container.id, container.service, container.state, container.exit_code) == (
        "abc",
        "ray-head",
        "exited",
        137,
    )
    assert container.out_of_memory
    assert not container.alive
    assert (container.health, container.health_output, container.restarts) == (
        "unhealthy",
        "node x is not alive",
        2,
    )
    assert container.started_at == pytest.approx(1795221206.53179)


def test_a_container_that_goes_between_two_questions_is_left_out() -> None:
    gone = (1, json.dumps([ROW]), "Error: No such container: def")
    assert len(engine({"ps": (0, "abc def", ""), "inspect": gone}).containers("p")) == 1


@pytest.mark.parametrize("text", ["", "0001-01-01T00:00:00Z", "yesterday"])
def test_a_container_that_never_started_has_no_time(text: str) -> None:
    assert seconds(text) == 0.0


def test_times_with_an_offset_are_the_same_moment() -> None:
    assert seconds("2026-11-21T01:00:00.5+01:00") == seconds("2026-11-21T00:00:00.5Z")


# python-on-whales, with a program in docker's place


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[[], list[dict[str, Any]]]:
    script = tmp_path / "docker.py"
    script.write_text(
        "import json, os, sys\n"
        "with open(sys.argv[0] + '.log', 'a') as log:\n"
        "    names = [n for n in os.environ if n.startswith(('LAB_', 'COMPOSE_'))]\n"
        "    log.write(json.dumps({'argv': sys.argv[1:], 'names': names}) + '\\n')\n"
        "sys.exit('port is already allocated' if 'start' in sys.argv else 0)\n"
    )

    def read() -> list[dict[str, Any]]:
        return [json.loads(line) for line in Path(f"{script}.log").read_text().splitlines()]

    return read


def test_compose_gets_files_and_env_file_but_none_of_the_callers_variables(
    tmp_path: Path, recorded: Callable[[], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_NAME", "theirs")
    monkeypatch.setenv("COMPOSE_FILE", "theirs.yaml")
    asked = DockerEngine((sys.executable, str(tmp_path / "docker.py")))
    asked.create([Path("/a/lab.yaml"), Path("/b.json")], Path("/c.env"))
    asked.act("kill", ["abc"])
    asked.act("network rm", ["abc", "def"])
    create, kill, remove = recorded()
    assert create["argv"] == [
        *("compose", "--file", "/a/lab.yaml", "--file", "/b.json", "--env-file", "/c.env"),
        *("create", "--no-build", "--no-recreate"),
    ]
    assert kill["argv"] == ["kill", "abc"]
    assert remove["argv"] == ["network", "rm", "abc", "def"]
    assert create["names"] == []
    assert os.environ["LAB_NAME"] == "theirs", "the caller has it again"
    assert not [name for name in clean_environment() if name.startswith("LAB_")]


def test_what_the_engine_refuses_is_said_in_its_words(
    tmp_path: Path, recorded: Callable[[], list[dict[str, Any]]]
) -> None:
    asked = DockerEngine((sys.executable, str(tmp_path / "docker.py")))
    with pytest.raises(EngineError, match="port is already allocated"):
        asked.act("start", ["abc"])
    assert len(recorded()) == 1


@pytest.mark.parametrize(
    "said",
    [
        "Error response from daemon: cannot kill container: abc: container abc is not running",
        "Error response from daemon: No such container: abc",
        "Error response from daemon: network abc not found\nexit status 1",
        "Error response from daemon: removal of container abc is already in progress",
    ],
)
def test_what_went_meanwhile_is_no_error_where_it_had_to_go(said: str) -> None:
    engine({"kill": (1, "abc\n", f"{said}\n")}).act("kill", ["abc"], gone=True)
    with pytest.raises(EngineError, match="docker failed"):
        engine({"kill": (1, "", said)}).act("kill", ["abc"])
    with pytest.raises(RefusedError, match="a container called minio already"):
        raise no_answer(
            'Container minio Creating\nConflict. The container name "/minio" is already in use by "6"'
        )
    with pytest.raises(EngineError, match="docker failed: disk on fire"):
        engine({"kill": (1, "", f"{said}\ndisk on fire")}).act("kill", ["abc"], gone=True)


def test_an_action_that_hangs_is_an_error_that_names_it() -> None:
    def run(argv: Sequence[str], *, timeout: float, **_: Any) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired(argv, timeout)

    hanging = DockerEngine((sys.executable,), run)
    with pytest.raises(EngineError, match=r"`docker stop` .*65 s"):
        hanging.act("stop", ["abc"], grace=5)
    with pytest.raises(EngineError, match=r"compose create` .*300 s"):
        hanging.create([Path("/a.yaml")], Path("/c.env"))


def test_volumes_are_read_with_their_labels() -> None:
    row = {"Name": "p_objects", "Labels": {"io.raylab.folder": "/home/lab"}}
    gone = (1, json.dumps([row, {"Name": "p_x", "Labels": None}]), "Error: no such volume: p_y")
    asked = engine({"volume ls": (0, "p_objects p_x p_y", ""), "volume inspect": gone})
    assert asked.volumes("p") == {"p_objects": row["Labels"], "p_x": {}}


def test_the_use_of_cpu_is_read_of_each_container() -> None:
    rows = [
        {"ID": "aa", "CPUPerc": "151.53%", "MemUsage": "1.2GiB / 4GiB"},
        {"ID": "bb", "CPUPerc": "--", "MemUsage": "-- / --"},
        {"ID": "cc", "CPUPerc": "0.00%"},
    ]
    answer = "\n".join(json.dumps(row) for row in rows)
    asked = engine({"stats --no-stream --no-trunc --format {{json .}} aa bb cc": (0, answer, "")})
    assert asked.cpu_percent(("aa", "bb", "cc")) == {"aa": 151.53, "cc": 0.0}
    assert asked.cpu_percent(()) == {}


class Finished:
    """A command that has written all its output."""

    def __init__(self, output: bytes, code: int) -> None:
        self.stdout, self.code = io.BytesIO(output), code
        self.ended = False

    def wait(self) -> int:
        self.ended = True
        return self.code

    def poll(self) -> int | None:
        return self.code if self.ended else None

    def kill(self) -> None:
        self.ended = True


def piped(output: bytes, code: int = 0) -> tuple[DockerEngine, list[tuple[str, ...]], Finished]:
    """An engine whose logs are these bytes, what it was asked, and the process that is asked."""
    asked: list[tuple[str, ...]] = []
    process = Finished(output, code)

    def pipe(argv: Sequence[str], errors: object) -> Any:
        assert errors == subprocess.STDOUT
        asked.append(tuple(argv[1:]))
        return process

    return DockerEngine(pipe=pipe), asked, process


def test_a_log_is_read_a_line_at_a_time_and_its_process_ends_with_the_reader() -> None:
    docker, asked, process = piped(b"one\r\ncaf\xe9\nthree\n")
    lines = docker.logs("abc", True, 3)
    assert (next(lines), next(lines)) == ("one", "caf\ufffd")
    assert not process.ended
    lines.close()  # type: ignore[attr-defined]
    assert process.ended
    assert asked == [("logs", "--follow", "--tail", "3", "abc")]
    assert list(piped(b"one\n")[0].logs("abc", False, None)) == ["one"]


def test_a_log_that_cannot_be_read_is_an_error_in_the_engines_words() -> None:
    docker, _, _ = piped(b"Error: the logging driver does not support reading\n", 1)
    with pytest.raises(EngineError, match="does not support reading"):
        list(docker.logs("abc", False, None))


@pytest.mark.parametrize(
    ("network", "bindings", "published"),
    [
        ("lab", {}, ()),
        ("lab", {"9000/tcp": None, "1/tcp": []}, ()),
        ("lab", {"9000/tcp": [{"HostIp": "127.0.0.1", "HostPort": "80"}]}, (("127.0.0.1", 80),)),
        (
            "lab",
            {"9/tcp": [{"HostIp": "", "HostPort": "80"}, {"HostIp": "::", "HostPort": "80"}]},
            (("0.0.0.0", 80), ("::", 80)),
        ),
        ("host", {}, (("0.0.0.0", 0),)),
    ],
)
def test_the_ports_that_a_container_publishes_are_read(
    network: str, bindings: dict[str, Any], published: tuple[tuple[str, int], ...]
) -> None:
    row = {
        "Id": "a",
        "State": {"Status": "running"},
        "Config": {},
        "HostConfig": {"NetworkMode": network},
        "NetworkSettings": {"Ports": bindings},
    }
    assert container(row).published == published
