"""The start of an agent: where there is one, and which GPUs it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from raylab_health import companion, start
from raylab_health.devices import devices
from tests.unit.probe.raylab_health.fakes import FakeNode

ENVIRON = {start.URL: "http://127.0.0.1:8266", "RAYLAB_SERVICE_NAME": "ray-worker-0"}


def test_a_node_without_a_controller_has_no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fork", lambda: pytest.fail("forked"))
    for missing in ENVIRON:
        environ = {key: value for key, value in ENVIRON.items() if key != missing}
        assert start.beside(["start"], loopback=True, environ=environ) == 0


def test_a_node_starts_although_its_agent_cannot(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fork() -> int:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr("os.fork", fork)
    assert start.beside(["start"], loopback=True, environ=ENVIRON) == 0
    assert "no raylab-health" in capsys.readouterr().err


def test_a_step_that_fails_ends_no_agent(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [None, KeyError("now"), *[OSError("full")] * 8, None, ValueError("odd")]
    slept: list[float] = []

    def step() -> None:
        error = steps.pop(0)
        if error is not None:
            raise error

    companion.repeat("raylab-x", step, lambda: bool(steps), slept.append)
    assert slept == [1.0, 2.0, 4.0, 8.0, 16.0, *[companion.LONGEST_SECONDS] * 4, 1.0]
    assert capsys.readouterr().err.splitlines() == [
        "a step of raylab-x failed: KeyError('now')",
        "a step of raylab-x failed: ValueError('odd')",
    ]


@pytest.mark.parametrize(
    ("arguments", "count"),
    [(["start", "--num-gpus=2"], 2), (["start"], 0), (["--num-gpus=x"], 0), (["--num-gpus=1"] * 2, 1)],
)
def test_the_number_of_gpus_is_what_ray_is_told(arguments: list[str], count: int) -> None:
    assert start.gpus(arguments) == count


class Connection:
    """An HTTP connection that is answered with `status` and `body`."""

    status, body = 200, b'{"now": 1}'
    asked: list[Any]

    def __init__(self, host: str, port: int, timeout: float) -> None:
        type(self).asked = [host, port]

    def request(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> None:
        self.asked += [method, path, json.loads(body), headers]

    def getresponse(self) -> Any:
        return self

    def read(self) -> bytes:
        return self.body

    def close(self) -> None:
        pass


def test_a_report_bears_the_token_and_another_answer_than_200_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("secret\n")
    monkeypatch.setattr("http.client.HTTPConnection", Connection)
    post = start.poster("http://queue:8266", str(tmp_path / "token"))
    assert post({"node": "x"}) == {"now": 1}
    assert Connection.asked[:5] == ["queue", 8266, "POST", "/health/report", {"node": "x"}]
    assert Connection.asked[5]["Authorization"] == "Bearer secret"
    monkeypatch.setattr(Connection, "status", 401)
    with pytest.raises(ValueError, match="HTTP 401"):
        post({})


@pytest.mark.parametrize(
    ("vendor", "count", "environ", "names"),
    [
        ("none", 0, {}, ["cpu"]),
        ("simulated", 1, {}, ["gpu-0", "cpu"]),
        ("simulated", 0, {}, ["cpu"]),
        ("nvidia", 1, {"CUDA_VISIBLE_DEVICES": "GPU-1"}, ["GPU-1", "cpu"]),
        ("nvidia", 0, {"CUDA_VISIBLE_DEVICES": ""}, ["cpu"]),
    ],
)
def test_a_node_has_its_gpus_and_itself(
    vendor: str, count: int, environ: dict[str, str], names: list[str], tmp_path: Path
) -> None:
    files = {"proc/cpuinfo": "processor : 0\nmodel name : A Processor\n"}
    node = FakeNode(
        tmp_path, vendor=vendor, environ=environ, files=files, nvml="NVML_ERROR_LIBRARY_NOT_FOUND"
    )
    listed = devices(node, count)
    assert [device["name"] for device in listed] == names
    assert listed[-1]["model"] == "A Processor"


def test_nvml_names_the_gpus_and_one_that_fell_off_the_bus_stays_a_device(tmp_path: Path) -> None:
    answers = {
        "nvmlDeviceGetCount": 2,
        "nvmlDeviceGetHandleByIndex": {0: "a", 1: "b"},
        "nvmlDeviceGetUUID": {"a": b"GPU-1", "b": b"GPU-2"},
        "nvmlDeviceGetName": {"a": b"H100", "b": b"H100"},
    }
    node = FakeNode(tmp_path, nvml=answers)
    assert devices(node, 2)[:-1] == [{"name": "GPU-1", "model": "H100"}, {"name": "GPU-2", "model": "H100"}]
    node = FakeNode(tmp_path, nvml={**answers, "nvmlDeviceGetName": "NVML_ERROR_FUNCTION_NOT_FOUND"})
    assert devices(node, 2)[:-1] == [{"name": "GPU-1", "model": ""}, {"name": "GPU-2", "model": ""}]
    node = FakeNode(tmp_path, nvml=answers, environ={"CUDA_VISIBLE_DEVICES": "GPU-2,GPU-3"})
    assert devices(node, 2)[:-1] == [{"name": "GPU-2", "model": "H100"}, {"name": "GPU-3", "model": ""}]
