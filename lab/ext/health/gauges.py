"""Metrics of health: Autopilot's gauge under its own name and labels, and what that does not say."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lab.api.health import CPU, EVICT, PASS, UNKNOWN, WARN, DeviceView, Result

if TYPE_CHECKING:
    from prometheus_client.core import Metric

MEASURED = "pciebw"
"""The check whose gauge is the measured bandwidth in GB/s, as Autopilot has it; every other is 0 or 1."""


def families(devices: Sequence[DeviceView]) -> Iterator[Metric]:
    """The metrics of these devices; of one about which nothing is known, its state alone."""
    from prometheus_client.core import GaugeMetricFamily as Gauge

    autopilots = ("health", "node", "cpumodel", "gpumodel", "deviceid")
    measured, stated = ("health", "node", "deviceid", "unit"), ("node", "deviceid", "state")
    checks = Gauge("autopilot_health_checks", "1 where a check fails, 0 where it passes.", labels=autopilots)
    states = Gauge("raylab_health_state", "1 for the state that a device has.", labels=stated)
    values = Gauge("raylab_health_value", "Last measured value of a check.", labels=measured)
    models = {device.node: device.model for device in devices if device.device == CPU}
    for device in devices:
        where = (device.node, device.device)
        for state in (PASS, WARN, EVICT, UNKNOWN):
            states.add_metric((*where, state), float(state == device.state))
        for check in device.checks if device.state != UNKNOWN else ():
            gpu = device.model if device.device != CPU else ""
            labels = (check.name, device.node, models.get(device.node, ""), gpu, device.device)
            checks.add_metric(labels, gauge(check))
            if check.value is not None:
                values.add_metric((check.name, *where, check.unit), check.value)
    yield from (checks, states, values)


def gauge(check: Result) -> float:
    """Autopilot's value of a check; NaN, which raises no alert, where nothing is known or measured."""
    if check.state == UNKNOWN:
        return math.nan
    if check.name != MEASURED:
        return float(check.state != PASS)
    return check.value if check.value is not None else math.nan if check.state == PASS else 0.0
