"""The health checks of containers."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from raylab_node import answers

STARTED = 1_800_000_000.0


def row(**changes: Any) -> dict[str, Any]:
    return {"node_name": "ray-worker-0", "state": "ALIVE", "start_time_ms": STARTED * 1000 + 500, **changes}


@pytest.mark.parametrize(
    ("rows", "fine"),
    [
        ([row()], True),
        ([row(state="DEAD"), row()], True),
        ([row(state="DEAD")], False),
        ([row(node_name="ray-worker-1")], False),
        ([row(start_time_ms=STARTED * 1000 - 5000)], False),
        ([row(start_time_ms=None)], False),
        ([], False),
    ],
)
def test_a_node_is_healthy_when_it_is_alive_and_of_this_life_of_its_container(
    rows: list[dict[str, Any]], fine: bool
) -> None:
    problem = answers.node_problem("ray-worker-0", rows, STARTED)
    assert (problem == "") is fine
    assert fine or "ray-worker-0 is not alive" in problem


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "token").write_text("secret\n")
    return {
        "RAY_API_SERVER_ADDRESS": "http://ray-head:8265",
        "RAYLAB_SERVICE_NAME": "ray-worker-0",
        "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token"),
    }


def test_the_head_is_asked_with_the_token(environment: dict[str, str]) -> None:
    def fetch(url: str, headers: Mapping[str, str]) -> bytes:
        assert url.startswith("http://ray-head:8265/api/v0/nodes")
        assert headers == {"Authorization": "Bearer secret"}
        return json.dumps({"data": {"result": {"result": [row()]}}}).encode()

    assert answers.node(environment, STARTED, fetch) == ""


@pytest.mark.parametrize("answer", [b"<html>", b"{}", b'{"data": null}'])
def test_an_answer_that_is_not_rays_is_a_problem(environment: dict[str, str], answer: bytes) -> None:
    assert "cannot be asked" in answers.node(environment, STARTED, lambda *_: answer)


def test_a_head_that_does_not_answer_is_a_problem(environment: dict[str, str]) -> None:
    def fetch(*_: object) -> bytes:
        raise OSError("connection refused")

    assert "connection refused" in answers.node(environment, STARTED, fetch)
    assert "connection refused" in answers.http("http://x/", fetch)


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (b'{"detail": "queue-loop has completed no step for 75 s"}', "queue-loop has completed no step"),
        (b"[]", "HTTP Error 503"),
        (b"<html>", "HTTP Error 503"),
    ],
)
def test_a_daemon_that_is_not_well_says_why(page: bytes, words: str) -> None:
    def fetch(url: str, _: object) -> bytes:
        raise HTTPError(url, 503, "Service Unavailable", Message(), io.BytesIO(page))

    assert words in answers.http("http://queue:8266/healthz", fetch)


def test_the_start_of_the_container_is_that_of_its_first_process(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "stat").write_text("1 (a (b) c) S " + " ".join(["0"] * 18) + " 5000 0 0\n")
    (tmp_path / "uptime").write_text("100.0 50.0\n")
    import os
    import time

    began = answers.container_started(tmp_path)
    assert began == pytest.approx(time.time() - 100 + 5000 / os.sysconf("SC_CLK_TCK"), abs=1)
    (tmp_path / "uptime").write_text("100000.0 50.0\n")
    assert answers.container_started(tmp_path) == 0.0, "a clock that was set meanwhile counts"


def test_a_wrong_call_says_how(capsys: pytest.CaptureFixture[str]) -> None:
    assert answers.main(["nodes"]) == 1
    assert "usage" in capsys.readouterr().out
