"""Prometheus of a lab of plain processes, and its configuration as Prometheus' own tool reads it."""

from __future__ import annotations

import subprocess

import pytest

from tests.built import PROMETHEUS, PROMTOOL
from tests.e2e.harness import Bench
from tests.e2e.metrics import MetricsTests
from tests.programs import needed


@pytest.fixture(autouse=True)
def needs_prometheus() -> None:
    """The local runtime runs Prometheus where it is installed."""
    needed(PROMETHEUS)


class TestMetrics(MetricsTests):
    """On plain processes."""


def test_promtool_accepts_the_configuration(bench: Bench) -> None:
    config = str(bench.folder / "prometheus.yml")
    ended = subprocess.run(
        (needed(PROMTOOL), "check", "config", config), capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "SUCCESS" in ended.stdout
