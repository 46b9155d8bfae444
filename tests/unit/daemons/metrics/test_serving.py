"""The exporter serves what it is given, and ends with the exit code of what kept it from starting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.daemons.metrics.__main__ import main, make_app
from lab.errors import UsageError
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
    assert "cannot read Ray's token" in capsys.readouterr().err
