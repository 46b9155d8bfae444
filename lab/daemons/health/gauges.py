"""Metrics of health: Autopilot's gauge under its own name and labels, and what that does not say."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lab.api.health import CPU, EVICT, PASS, UNKNOWN, WARN
from lab.daemons.health.model import SILENT, CheckHealth
from lab.daemons.health.monitor import HealthMonitor

if TYPE_CHECKING:
    from prometheus_client.core import Metric

AUTOPILOT = "autopilot_health_checks"
STATE = "raylab_health_state"
VALUE = "raylab_health_value"

LABELS = ("health", "node", "cpumodel", "gpumodel", "deviceid")
STATES = (PASS, WARN, EVICT, UNKNOWN)

MEASURED = "pciebw"
"""The check whose gauge is the measured bandwidth in GB/s, as Autopilot has it; every other is 0 or 1."""


class HealthCollector:
    """Gives prometheus_client the metrics of one monitor."""

    def __init__(self, monitor: HealthMonitor) -> None:
        self._monitor = monitor

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        with self._monitor.lock:
            all_health = self._monitor.board.states()
        models = {health.node: health.model for health in all_health if health.device == CPU}
        checks = GaugeMetricFamily(AUTOPILOT, "1 where a check fails, 0 where it passes.", labels=LABELS)
        states = GaugeMetricFamily(
            STATE, "1 for the state that a device has.", labels=("node", "deviceid", "state")
        )
        values = GaugeMetricFamily(
            VALUE, "Last measured value of a check.", labels=("health", "node", "deviceid", "unit")
        )
        for health in all_health:
            gpu = health.model if health.device != CPU else ""
            for state in STATES:
                states.add_metric((health.node, health.device, state), float(state == health.state))
            for check in health.checks if health.reason != SILENT else ():
                labels = (check.name, health.node, models.get(health.node, ""), gpu, health.device)
                checks.add_metric(labels, gauge(check))
                value = check.result.value
                if value is not None:
                    values.add_metric((check.name, health.node, health.device, check.result.unit), value)
        yield from (checks, states, values)


def gauge(check: CheckHealth) -> float:
    """Autopilot's value of a check: GB/s of `pciebw`, else 1 for WARN and EVICT and 0 for PASS.

    NaN, which raises no alert, where nothing is known or measured.
    """
    if check.state == UNKNOWN:
        return math.nan
    if check.name == MEASURED and check.state == PASS:
        return math.nan if check.result.value is None else check.result.value
    return (check.result.value or 0.0) if check.name == MEASURED else float(check.state != PASS)
