"""Prometheus of a lab of containers, and its configuration as Prometheus' own tool reads it."""

from __future__ import annotations

import pytest

from tests.e2e.compose.bench import ContainerBench
from tests.e2e.metrics import MetricsTests


@pytest.mark.long
class TestMetrics(MetricsTests):
    """In containers."""


def test_promtool_accepts_the_configuration(box: ContainerBench) -> None:
    assert "SUCCESS" in box.exec(
        "prometheus", "promtool", "check", "config", "/etc/prometheus/prometheus.yml"
    )
