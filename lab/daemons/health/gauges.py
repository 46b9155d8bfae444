"""Metrics of health: Autopilot's gauge under its own name and labels, and what that does not say."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lab.api.health import CPU, EVICT, PASS, UNKNOWN, WARN, Result
from lab.daemons.health.board import SILENT, Board

if TYPE_CHECKING:
    from prometheus_client.core import Metric

LABELS = ("health", "node", "cpumodel", "gpumodel", "deviceid")
STATES = (PASS, WARN, EVICT, UNKNOWN)

MEASURED = "pciebw"
"""The check whose gauge is the measured bandwidth in GB/s, as Autopilot has it; every other is 0 or 1."""


class HealthCollector:
    """Gives prometheus_client the metrics of one board."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        devices = self._board.devices()
        models = {device.node: device.model for device in devices if device.device == CPU}
        checks = GaugeMetricFamily(
            "autopilot_health_checks", "1 where a check fails, 0 where it passes.", labels=LABELS
        )
        states = GaugeMetricFamily(
            "raylab_health_state", "1 for the state that a device has.", labels=("node", "deviceid", "state")
        )
        measured = ("health", "node", "deviceid", "unit")
        values = GaugeMetricFamily("raylab_health_value", "Last measured value of a check.", labels=measured)
        for device in devices:
            gpu = device.model if device.device != CPU else ""
            for state in STATES:
                states.add_metric((device.node, device.device, state), float(state == device.state))
            for check in device.checks if device.reason != SILENT else ():
                labels = (check.name, device.node, models.get(device.node, ""), gpu, device.device)
                checks.add_metric(labels, gauge(check))
                if check.value is not None:
                    values.add_metric((check.name, device.node, device.device, check.unit), check.value)
        yield from (checks, states, values)


def gauge(check: Result) -> float:
    """Autopilot's value of a check: GB/s of `pciebw`, else 1 for WARN and EVICT and 0 for PASS.

    NaN, which raises no alert, where nothing is known or measured.
    """
    if check.state == UNKNOWN:
        return math.nan
    if check.name != MEASURED:
        return float(check.state != PASS)
    return check.value if check.value is not None else math.nan if check.state == PASS else 0.0
