"""Health of GPUs and nodes, as the queues' controller has it from the nodes' agents."""

from __future__ import annotations

from collections.abc import Iterable

from lab.api.health import CPU, DeviceView, HealthView, Symptom
from lab.cluster.controller import Controller
from lab.errors import LabError

SHORT = 12
"""Characters of a GPU's UUID that are shown."""


class HealthClient:
    """Health of one lab. Raises what Controller raises: LabDownError where the controller does not answer."""

    def __init__(self, controller: Controller) -> None:
        """`controller` is the queues', which has the page of health too."""
        self._controller = controller

    def view(self) -> HealthView:
        """Every device with its checks."""
        return self._controller.ask(HealthView, "GET", "/health")

    def devices(self) -> tuple[DeviceView, ...]:
        """Every device; none where nobody checks, or the controller does not answer."""
        try:
            return self.view().devices
        except LabError:
            return ()

    def symptom(self, symptom: Symptom) -> Symptom:
        """Let a check of a device say this, as a fault does; PASS ends it.

        Raises UsageError, NotFoundError for a node or device that no agent has told of.
        """
        return self._controller.ask(Symptom, "POST", "/health/symptom", symptom)


def short(device: str) -> str:
    """A device as it is shown."""
    return device.removeprefix("GPU-")[:SHORT]


def states(devices: Iterable[DeviceView]) -> dict[str, tuple[str, str]]:
    """Node -> state of its worst device, and the reason: `gpu-0: ecc`."""
    order = ("PASS", "UNKNOWN", "WARN", "EVICT")
    worst: dict[str, DeviceView] = {}
    for device in sorted(devices, key=lambda device: order.index(device.state), reverse=True):
        worst.setdefault(device.node, device)
    return {node: (device.state, _reason(device)) for node, device in worst.items()}


def _reason(device: DeviceView) -> str:
    if device.state == "PASS":
        return ""
    reason = device.reason or "not checked yet"
    return reason if device.device == CPU else f"{short(device.device)}: {reason}"
