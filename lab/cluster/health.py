"""Health of GPUs and nodes, as the queues' controller has it from the nodes' agents."""

from __future__ import annotations

from typing import Any

from lab.cluster.queues import Document, Queues
from lab.errors import LabError, UsageError
from lab.host.clock import MONOTONIC, Clock, poll

STATES = ("PASS", "WARN", "TESTING", "EVICT", "UNKNOWN")
"""States of a device, from the best to the least known; docs/health.md says what they mean."""

ORDERABLE = ("PASS", "WARN", "EVICT", "UNKNOWN")
"""Results that a check can be ordered to report."""

CPU = "cpu"
"""The device that stands for a node without its GPUs."""

RUN_SECONDS = 120.0
"""Time for ordered checks to be made."""


class HealthClient:
    """Health of one lab. Raises what Queues raises: LabDownError where the controller does not answer."""

    def __init__(self, queues: Queues) -> None:
        """`queues` is the client of the controller."""
        self._queues = queues

    def view(self) -> Document:
        """Every device with its checks: `devices`, `overrides`, and `skipped`, checks that cannot be made."""
        return self._queues.ask("GET", "/health")

    def run(self, node: str = "", check: str = "") -> Document:
        """Order checks of a node or all; returns which, at once. Raises NotFoundError."""
        return self._queues.ask("POST", "/health/run", {"node": node, "check": check})

    def run_and_wait(
        self, node: str = "", check: str = "", timeout: float = RUN_SECONDS, clock: Clock = MONOTONIC
    ) -> Document:
        """Order checks and return the view once all that can be made have new results.

        All checks are those that are not invasive; one of those has to be named. Raises NotFoundError,
        WaitTimeoutError.
        """
        before = _times(self.view())
        ordered = self.run(node, check)["ordered"]
        latest: Document = {}

        def look() -> Document | None:
            nonlocal latest
            latest = self.view()
            return None if _missing(ordered, before, latest) else latest

        return poll(
            look,
            timeout=timeout,
            waited_for="the ordered checks",
            clock=clock,
            state=lambda: f"no result yet: {', '.join(_missing(ordered, before, latest)[:5])}",
            hint="labctl health shows what is known; an agent that does not report runs no checks",
        )

    def override(
        self,
        node: str,
        device: str,
        check: str,
        state: str,
        *,
        message: str = "",
        value: float | None = None,
    ) -> Document:
        """Let a check of a device report this result until `lift`: what a fault does.

        Raises UsageError, NotFoundError for a node or device that no agent has told of.
        """
        if state not in ORDERABLE:
            raise UsageError(f"{state}: not a result of a check", f"one of {', '.join(ORDERABLE)}")
        order = {"node": node, "device": device, "check": check, "state": state, "message": message}
        return self._queues.ask("POST", "/health/override", {**order, "value": value})

    def lift(self, node: str, device: str, check: str) -> Document:
        """End an override; one that is not there is ended."""
        return self._queues.ask("POST", "/health/lift", {"node": node, "device": device, "check": check})


def worst(view: Document) -> dict[str, Document]:
    """Node -> its device in the worst state."""
    order = {state: place for place, state in enumerate(("PASS", "UNKNOWN", "WARN", "TESTING", "EVICT"))}
    worst_of: dict[str, Document] = {}
    for device in view["devices"]:
        known = worst_of.get(device["node"])
        if known is None or order[device["state"]] > order[known["state"]]:
            worst_of[device["node"]] = device
    return worst_of


def states(health: HealthClient) -> dict[str, tuple[str, str]]:
    """Node -> state of its worst device, and the reason; nothing where the controller does not answer."""
    try:
        return {node: (device["state"], device["reason"]) for node, device in worst(health.view()).items()}
    except LabError:
        return {}


def _times(view: Document) -> dict[tuple[str, str, str], Any]:
    return {
        (device["node"], device["device"], check["name"]): check["at"]
        for device in view["devices"]
        for check in device["checks"]
    }


def _missing(ordered: Document, before: dict[tuple[str, str, str], Any], view: Document) -> list[str]:
    """Ordered checks without a result since, but for those that their node cannot make."""
    now = _times(view)
    return [
        f"{check} of {node}"
        for node, checks in ordered.items()
        for check in checks
        if check not in view["skipped"].get(node, {})
        and not any(at != before.get(key) for key, at in now.items() if (key[0], key[2]) == (node, check))
    ]
