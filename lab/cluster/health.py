"""Health of GPUs and nodes, as the queues' controller has it from the nodes' agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from lab.api.health import CheckRequest, DeviceView, HealthView, Ordered, Symptom
from lab.cluster.controller import Controller
from lab.errors import LabError
from lab.host.clock import MONOTONIC, Clock, poll

RUN_SECONDS = 120.0
"""Time for ordered checks to be made."""


class HealthClient:
    """Health of one lab. Raises what Controller raises: LabDownError where the controller does not answer."""

    def __init__(self, controller: Controller) -> None:
        """`controller` is the queues', which keeps the board of health too."""
        self._controller = controller

    def view(self) -> HealthView:
        """Every device with its checks."""
        return self._controller.ask(HealthView, "GET", "/health")

    def run(self, node: str = "", check: str = "") -> Ordered:
        """Order checks of a node or all; returns which, at once. Raises NotFoundError."""
        return self._controller.ask(Ordered, "POST", "/health/run", CheckRequest(node, check))

    def run_and_wait(
        self, node: str = "", check: str = "", timeout: float = RUN_SECONDS, clock: Clock = MONOTONIC
    ) -> HealthView:
        """Order checks and return the view once all that can be made have new results.

        Raises NotFoundError, WaitTimeoutError.
        """
        view = self.view()
        before = _times(view)
        ordered = self.run(node, check).ordered

        def look() -> HealthView | None:
            nonlocal view
            view = self.view()
            return None if _missing(ordered, before, view) else view

        return poll(
            look,
            timeout=timeout,
            waited_for="the ordered checks",
            clock=clock,
            state=lambda: f"no result yet: {', '.join(_missing(ordered, before, view)[:5])}",
            hint="labctl health shows what is known; an agent that does not report runs no checks",
        )

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


Times: TypeAlias = Mapping[tuple[str, str, str], float]
"""Node, device and check -> time of the last result."""


def _times(view: HealthView) -> Times:
    return {
        (device.node, device.device, check.name): check.at
        for device in view.devices
        for check in device.checks
    }


def _missing(ordered: Mapping[str, tuple[str, ...]], before: Times, view: HealthView) -> list[str]:
    """Ordered checks without a result since, but for those that their node cannot make."""
    now = _times(view)
    return [
        f"{check} of {node}"
        for node, checks in ordered.items()
        for check in checks
        if check not in view.skipped.get(node, {})
        and not any(at != before.get(key) for key, at in now.items() if (key[0], key[2]) == (node, check))
    ]
