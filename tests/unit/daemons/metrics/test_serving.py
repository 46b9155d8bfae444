"""The exporter serves what it is given, and ends with the exit code of what kept it from starting."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.daemons.metrics.__main__ import main, make_app
from lab.daemons.metrics.guard import make_guard, read_guard
from lab.errors import UsageError
from lab.host.http import NoAnswerError, Reply
from lab.host.loops import Loops


class Collector:
    """One gauge."""

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        yield GaugeMetricFamily("raylab_test", "A test.", value=7)


@pytest.mark.parametrize(
    ("host", "status"), [("metrics:9101", "200 OK"), ("rebound.example", "403 Forbidden")]
)
def test_the_metrics_are_served_under_its_own_names(host: str, status: str) -> None:
    said: list[str] = []
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/metrics", "HTTP_HOST": host}
    app = make_app(Collector(), Loops(()))
    body = b"".join(app(environ, lambda status, _: said.append(status)))
    assert said == [status]
    assert (b"raylab_test 7.0" in body.splitlines()) == status.startswith("200")


def test_a_missing_token_file_ends_the_start_with_its_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = {
        "RAY_API_SERVER_ADDRESS": "http://127.0.0.1:1",
        "RAY_AUTH_TOKEN_PATH": str(tmp_path / "ray.token"),
    }
    assert main(["--listen", "127.0.0.1:0"], environ) == UsageError.exit_code
    assert "ray.token cannot be read" in capsys.readouterr().err


class Behind:
    """In place of Prometheus: what it was asked, and what it answers."""

    def __init__(self, *replies: Reply | NoAnswerError) -> None:
        self.asked: list[dict[str, Any]] = []
        self._replies = list(replies)

    def __call__(self, method: str, url: str, **rest: Any) -> Reply:
        self.asked.append({"method": method, "url": url, **rest})
        reply = self._replies.pop(0)
        if isinstance(reply, NoAnswerError):
            raise reply
        return reply


def ask(
    behind: Behind, path: str = "/graph", host: str = "127.0.0.1:9090", **environ: Any
) -> tuple[str, Any, bytes]:
    asked = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "HTTP_HOST": host, **environ}
    said: list[Any] = []
    body = b"".join(make_guard("http://behind:1", behind)(asked, lambda *lines: said.extend(lines)))
    return said[0], dict(said[1]), body


@pytest.mark.parametrize("host", ["rebound.example", "rebound.example:9090", "", "127.0.0.1.rebound.example"])
def test_a_foreign_name_does_not_reach_prometheus(host: str) -> None:
    behind = Behind()
    assert ask(behind, host=host)[0] == "403 Forbidden"
    assert behind.asked == []


@pytest.mark.parametrize(
    "host", ["127.0.0.1:9090", "LOCALHOST", "[::1]:9090", "prometheus:9090", "alertmanager:9093", "metrics"]
)
def test_what_the_lab_asks_is_passed_on_with_its_answer(host: str) -> None:
    behind = Behind(Reply(302, {"location": "/graph", "content-type": "text/html", "server": "x"}, b"moved"))
    status, headers, body = ask(
        behind,
        "/api/v1/qu ery/\xc3\xbc",
        host,
        QUERY_STRING="query=up%7B%7D",
        REQUEST_METHOD="POST",
        CONTENT_TYPE="application/x-www-form-urlencoded",
        CONTENT_LENGTH="5",
        HTTP_COOKIE="secret",
        **{"wsgi.input": io.BytesIO(b"a=b&c and more")},
    )
    assert (status, body) == ("302 ", b"moved")
    assert headers == {"Content-Type": "text/html", "Location": "/graph", "Content-Length": "5"}
    (asked,) = behind.asked
    assert asked["method"] == "POST"
    assert asked["url"] == "http://behind:1/api/v1/qu%20ery/%C3%BC?query=up%7B%7D"
    assert asked["body"] == b"a=b&c"
    assert asked["headers"] == {"Content-Type": "application/x-www-form-urlencoded"}


def test_a_prometheus_that_does_not_answer_is_told() -> None:
    status, _, body = ask(Behind(NoAnswerError("Connection refused")))
    assert (status, body) == ("502 Bad Gateway", b"no answer: Connection refused\n")


@pytest.mark.parametrize("length", ["-1", "x", "99999999999", str((16 << 20) + 1)])
def test_a_request_that_is_too_long_is_not_read(length: str) -> None:
    assert ask(Behind(), CONTENT_LENGTH=length)[0] == "413 Request Entity Too Large"


@pytest.mark.parametrize(
    "text", ["", "9090=http://a", "127.0.0.1:1", "127.0.0.1:1=ftp://a", "127.0.0.1:1=http://a/b"]
)
def test_a_guard_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        read_guard(text)


def test_a_guard_is_an_address_and_what_is_behind() -> None:
    assert read_guard("127.0.0.1:9090=http://127.1.2.3:9090") == ("127.0.0.1", 9090, "http://127.1.2.3:9090")
