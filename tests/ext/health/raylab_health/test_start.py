"""The start of an agent: where there is one, how many GPUs it has, and whom it reports to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from raylab_health import start
from raylab_node import answers

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


@pytest.mark.parametrize(
    ("arguments", "count"),
    [(["start", "--num-gpus=2"], 2), (["start"], 0), (["--num-gpus=x"], 0), (["--num-gpus=1"] * 2, 1)],
)
def test_the_number_of_gpus_is_what_ray_is_told(arguments: list[str], count: int) -> None:
    assert start.gpus(arguments) == count


def test_a_report_bears_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    def ask(url: str, headers: Mapping[str, str], data: bytes) -> bytes:
        sent.extend((url, headers["Authorization"], json.loads(data)))
        return b'{"now": 1}'

    monkeypatch.setattr(answers, "ask", ask)
    (tmp_path / "token").write_text("secret\n")
    environ = {**ENVIRON, "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token")}
    assert start.post(environ, {"node": "x"}) == {"now": 1}
    assert sent == ["http://127.0.0.1:8266/health/report", "Bearer secret", {"node": "x"}]
