"""How the exporter is configured, and that it serves what it is given. No network but loopback."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.errors import PortTakenError, UsageError
from lab.host.secrets import aws_credentials_file
from lab.metrics.__main__ import (
    credentials,
    followers,
    listen_address,
    main,
    make_server,
    ray_token,
)
from lab.topology import Credentials

KEY = Credentials("access", "se%cret")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "aws.ini").write_text(aws_credentials_file(KEY))
    (tmp_path / "ray.token").write_text("the-token\n")
    return {
        "RAY_API_SERVER_ADDRESS": "http://127.0.0.1:1",
        "RAY_AUTH_TOKEN_PATH": str(tmp_path / "ray.token"),
        "AWS_ENDPOINT_URL": "http://127.0.0.1:2",
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "aws.ini"),
    }


def test_the_key_comes_from_the_file_or_from_the_environment(environ: dict[str, str]) -> None:
    assert credentials(environ) == KEY
    assert credentials({"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}) == Credentials("a", "b")
    assert ray_token(environ) == "the-token"
    assert ray_token({}) == ""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("RAY_API_SERVER_ADDRESS", "RAY_API_SERVER_ADDRESS is not set"),
        ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL is not set"),
        ("AWS_SHARED_CREDENTIALS_FILE", "AWS_ACCESS_KEY_ID is not set"),
    ],
)
def test_what_is_missing_is_named(environ: dict[str, str], name: str, message: str) -> None:
    del environ[name]
    with pytest.raises(UsageError, match=message):
        followers(environ)


@pytest.mark.parametrize("content", ["", "[other]\n", "[default]\naws_access_key_id = a\n", "no ini"])
def test_a_damaged_credentials_file_is_named(environ: dict[str, str], tmp_path: Path, content: str) -> None:
    (tmp_path / "aws.ini").write_text(content)
    with pytest.raises(UsageError, match=r"aws\.ini (holds no key|is empty)"):
        credentials(environ)


def test_a_missing_token_file_ends_the_start_with_its_exit_code(
    environ: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ray.token").unlink()
    assert main(["--listen", "127.0.0.1:0"], environ) == UsageError.exit_code
    assert "cannot read Ray's token" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:9101", ("127.0.0.1", 9101)), ("0.0.0.0:1", ("0.0.0.0", 1)), ("[::1]:5", ("::1", 5))],
)
def test_the_address_to_listen_on(text: str, address: tuple[str, int]) -> None:
    assert listen_address(text) == address


@pytest.mark.parametrize("text", ["9101", "host:", "host:x", ":9101", "host:70000"])
def test_an_address_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not HOST:PORT"):
        listen_address(text)


class Collector:
    """One gauge."""

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        yield GaugeMetricFamily("raylab_test", "A test.", value=7)


@pytest.fixture
def port() -> Iterator[int]:
    """That of a server that serves one gauge."""
    server = make_server("127.0.0.1", 0, Collector())
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def ask(port: int, host: str = "") -> str:
    headers = {"Host": host} if host else {}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(answer.read().decode())


def test_the_metrics_are_served_and_a_port_in_use_is_named(port: int) -> None:
    assert "raylab_test 7.0" in ask(port).splitlines()
    with pytest.raises(PortTakenError, match=f"127.0.0.1:{port}"):
        make_server("127.0.0.1", port, Collector())


@pytest.mark.parametrize("host", ["localhost:1", "LOCALHOST", "[::1]:9101", "[::1]", "metrics:9101"])
def test_the_lab_may_call_the_server_by_any_of_its_names(port: int, host: str) -> None:
    assert "raylab_test 7.0" in ask(port, host).splitlines()


@pytest.mark.parametrize("host", ["rebound.example", "rebound.example:9101", "127.0.0.1.rebound.example"])
def test_a_page_of_another_host_name_is_refused(port: int, host: str) -> None:
    with pytest.raises(urllib.error.HTTPError, match="403"):
        ask(port, host)
