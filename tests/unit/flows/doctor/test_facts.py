from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import EngineError, StoreError
from lab.flows.doctor.facts import (
    _ask_patches,
    _round_trip,
    cgroup_memory,
    gather_facts,
    gather_tools,
    listeners,
    published,
)
from lab.flows.doctor.model import ListeningPort
from lab.host.gpus import Detection
from lab.host.listening import Listening
from lab.services import HEAD
from lab.topology import Credentials, Endpoints, LabSpec
from tests.fakes import FakeRuntime
from tests.fakes.store import FakeObjectStore
from tests.unit.flows.doctor.test_containers import FakeEngine


def test_a_home_that_does_not_exist_yet_is_judged_by_the_folder_it_will_be_in(tmp_path: Path) -> None:
    facts = gather_facts(tmp_path / "not" / "there")
    assert facts.home == tmp_path / "not" / "there"
    assert facts.home_error == ""
    assert not facts.home.exists()
    assert facts.disk_free
    assert facts.disk_total


def test_a_home_below_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "not a folder" in gather_facts(tmp_path / "file" / "labs").home_error


def test_the_memory_of_a_container_is_its_limit_without_what_is_taken_for_good(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("4000\n")
    (tmp_path / "memory.current").write_text("3000\n")
    (tmp_path / "memory.stat").write_text("anon 1500\nfile 1500\ninactive_file 1200\nactive_file 300\n")
    assert cgroup_memory(tmp_path) == 2200


def test_without_a_limit_or_without_control_groups_the_host_decides(tmp_path: Path) -> None:
    assert cgroup_memory(tmp_path) is None
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("3000\n")
    (tmp_path / "memory.stat").write_text("inactive_file 0\n")
    assert cgroup_memory(tmp_path) is None


def test_the_engine_that_answers_is_told_with_its_version() -> None:
    tools = gather_tools(
        which=lambda name: f"/bin/{name}", engine=FakeEngine(), nvidia=Detection, amd=Detection
    )
    assert (tools.docker, tools.docker_error) == ("28.2.2", "")
    assert tools.binaries["minio"] == "/bin/minio"


def test_an_engine_that_does_not_answer_is_told_with_its_reason() -> None:
    engine = FakeEngine(EngineError("the Docker Engine is not running"))
    tools = gather_tools(which=lambda name: None, engine=engine, nvidia=Detection, amd=Detection)
    assert (tools.docker, tools.docker_error) == ("", "the Docker Engine is not running")
    assert tools.binaries == {}


def test_the_round_trip_leaves_nothing_in_the_store() -> None:
    store = FakeObjectStore()
    store.ensure_bucket()
    store.put("kept", b"1")
    server, error = _round_trip(store)
    assert error == ""
    assert server
    assert [stored.key for stored in store.list()] == ["kept"]


class Forgetful(FakeObjectStore):
    def get(self, key: str) -> bytes:
        return super().get(key)[:-1]


class Full(FakeObjectStore):
    def put(self, key: str, data: bytes) -> None:
        raise StoreError("the disk is full")


@pytest.mark.parametrize(("kind", "said"), [(Forgetful, "came back changed"), (Full, "the disk is full")])
def test_a_store_that_does_not_keep_what_is_written_is_told_with_its_reason(
    kind: type[FakeObjectStore], said: str
) -> None:
    store = kind()
    store.ensure_bucket()
    assert said in _round_trip(store)[1]


def test_the_labs_ports_are_those_of_its_processes_and_those_it_publishes() -> None:
    endpoints = Endpoints(
        dashboard="http://127.0.0.1:8265",
        gcs="127.0.0.1:6379",
        s3="http://127.0.0.1:9000",
        credentials=Credentials("a", "b"),
        ray_token="t",
    )
    sockets = [
        Listening("127.0.0.1", 8265, 10),
        Listening("0.0.0.0", 40001, 11),
        Listening("127.0.0.1", 9000),
        Listening("0.0.0.0", 22, 99),
        Listening("::", 111),
    ]
    owners = {10: "ray-head", 11: "ray-worker-0"}
    assert listeners(sockets, owners, published(endpoints)) == (
        ListeningPort("ray-head", sockets[0]),
        ListeningPort("s3", sockets[2]),
        ListeningPort("ray-worker-0", sockets[1]),
    )


ASKED = ("python", "-m", "raylab_expectations")


@pytest.mark.parametrize(
    ("output", "code", "unfit", "why"),
    [
        ("{}", 0, {}, ""),
        ('a warning\n{"elastic": "x has no y"}\n', 0, {"elastic": "x has no y"}, ""),
        ("No module named raylab_expectations\n", 1, {}, "not understood: 'No module named"),
        ("[]\n", 0, {}, ""),
    ],
)
def test_the_head_is_asked_for_the_patches_that_fit_its_ray(
    output: str, code: int, unfit: dict[str, str], why: str
) -> None:
    runtime = FakeRuntime("raylab")
    runtime.up(LabSpec())
    runtime.answer(HEAD, ASKED, output, code)
    answer, unknown = _ask_patches(runtime)
    assert answer == unfit
    assert why in unknown
    runtime.pause(HEAD)
    assert "has not ended" in _ask_patches(runtime)[1]
