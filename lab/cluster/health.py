"""Health of GPUs and nodes, as the queues' controller has it from the nodes' agents."""

from __future__ import annotations

from collections.abc import Iterable

from lab.api.health import DeviceView, HealthView, Symptom
from lab.cluster.controller import Controller
from lab.errors import LabError


class HealthClient:
    """Health of one lab. Raises what Controller raises: LabDownError where the controller does not answer."""

    def __init__(self, controller: Controller) -> None:
        """`controller` is the queues', which keeps the board of health too."""
        self._controller = controller

    def view(self) -> HealthView:
        """Every device with its checks."""
        return self._controller.ask(HealthView, "GET", "/health")

    def symptom(self, symptom: Symptom) -> Symptom:
        """Let a check of a device say this, as a fault does; PASS ends it.

        Raises UsageError, NotFoundError for a node or device that no agent has told of.
        """
        return self._controller.ask(Symptom, "POST", "/health/symptom", symptom)


def worst(devices: Iterable[DeviceView]) -> dict[str, DeviceView]:
    """Node -> its device in the worst state."""
    order = {state: place for place, state in enumerate(("PASS", "UNKNOWN", "WARN", "EVICT"))}
    by_node: dict[str, DeviceView] = {}
    for device in devices:
        known = by_node.get(device.node)
        if known is None or order[device.state] > order[known.state]:
            by_node[device.node] = device
    return by_node


def states(health: HealthClient) -> dict[str, tuple[str, str]]:
    """Node -> state of its worst device, and the reason; nothing where the controller does not answer."""
    try:
        devices = health.view().devices
    except LabError:
        return {}
    return {node: (device.state, device.reason) for node, device in worst(devices).items()}
