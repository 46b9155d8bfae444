"""The board: agents report what their checks say, and each device has the worst state of its checks.

A node without a report for SILENT_SECONDS is UNKNOWN; only EVICT stays: a GPU is not whole when nobody looks.
One that comes back FLAKY_RETURNS times within FLAKY_SECONDS, after silence or as a new process, is WARN for
the check `presence`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lab.api import health
from lab.api.health import CPU, EVICT, PASS, UNKNOWN, WARN
from lab.daemons.pages import Answer, Page, Request, body, printable
from lab.errors import NotFoundError
from lab.ext.health import gauges
from lab.host.clock import Clock

if TYPE_CHECKING:
    from prometheus_client.core import Metric

BADNESS = {UNKNOWN: 0, PASS: 1, WARN: 2, EVICT: 3}
"""How bad the result of a check is; the worst of a device's checks counts."""

SILENT, PRESENCE = "silent", "presence"
"""Reasons that no agent reports: it does not report, or it came and went."""

SILENT_SECONDS = 15.0
"""Time of three reports."""

LATE_SECONDS = 5.0
"""Most that one tick adds to a silence: on a machine that stood still nobody was silent."""

FLAKY_RETURNS, FLAKY_SECONDS = 3, 90.0
FORGOTTEN_SECONDS = 3600.0
"""A node that has been silent as long is no longer listed, unless a device of it is EVICT."""


@dataclass
class _Node:
    """What a node reported last, and when."""

    report: health.AgentReport
    heard: float
    quiet: float = 0.0
    """Seconds without a report that could have come."""
    returns: tuple[float, ...] = ()

    @property
    def silent(self) -> bool:
        return self.quiet > SILENT_SECONDS


class Board:
    """Health of one lab, a part of the queues' controller. Its methods may be called from any thread."""

    def __init__(
        self,
        lock: threading.RLock,
        clock: Clock,
        wake: Callable[[], None] = lambda: None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`wake` is called when a state has changed, under the lock."""
        self._lock, self._clock, self._wake, self._say = lock, clock, wake, say
        self._nodes: dict[str, _Node] = {}
        self._views: dict[tuple[str, str], health.DeviceView] = {}
        self._symptoms: dict[tuple[str, str, str], health.Symptom] = {}
        self._ticked = clock()

    def report(self, report: health.AgentReport) -> health.Heard:
        """Take a report; returns what its node has to know."""
        with self._lock:
            now, old = self._clock(), self._nodes.get(report.node)
            before = {device.name: device.checks for device in old.report.devices} if old else {}
            devices = tuple(
                replace(device, checks=_newest(before.get(device.name, ()), device.checks))
                for device in report.devices
            )
            new = self._nodes[report.node] = _Node(replace(report, devices=devices), now)
            if old is not None:
                again = old.silent or old.report.boot != report.boot
                new.returns = (*old.returns, now) if again else old.returns
            self._decide(now)
            others = [node.report for node in self._nodes.values() if node is not new and not node.silent]
            return health.Heard(now, {other.node: other.address for other in others if other.address})

    def view(self) -> health.HealthView:
        with self._lock:
            return health.HealthView(self._clock(), self.devices(), tuple(self._symptoms.values()))

    def devices(self) -> tuple[health.DeviceView, ...]:
        """Every device now, by node and name, `cpu` last."""
        with self._lock:
            order = sorted(self._views, key=lambda key: (key[0], key[1] == CPU, key[1]))
            return tuple(self._views[key] for key in order)

    def symptom(self, symptom: health.Symptom) -> health.Symptom:
        """Let a check say what a fault wants, or end that; one that is not there is ended.

        Raises NotFoundError for a device that no agent has told of.
        """
        symptom = replace(symptom, message=printable(symptom.message))
        key = (symptom.node, symptom.device, symptom.check)
        with self._lock:
            if symptom.state == PASS:
                self._symptoms.pop(key, None)
            elif key[:2] in self._views:
                self._symptoms[key] = symptom
            else:
                there = ", ".join(" ".join(known) for known in sorted(self._views)) or "none yet"
                what = f"no health agent has told of {symptom.node} {symptom.device}"
                raise NotFoundError(what, f"there are: {there}")
            self._decide(self._clock())
        return symptom

    def tick(self) -> None:
        """Look at who has become silent. To be called about each second."""
        with self._lock:
            now = self._clock()
            passed, self._ticked = now - self._ticked, now
            for node in self._nodes.values():
                node.quiet += max(0.0, min(passed, LATE_SECONDS))
            self._decide(now)

    def _decide(self, now: float) -> None:
        """Decide what follows from all that is known, and tell what is new."""
        before, self._views = self._views, {}
        self._symptoms = {k: s for k, s in self._symptoms.items() if s.until is None or now < s.until}
        for name, node in list(self._nodes.items()):
            node.returns = tuple(at for at in node.returns if now - at <= FLAKY_SECONDS)
            views = [self._view(node, one, before.get((name, one.name)), now) for one in node.report.devices]
            if node.quiet > FORGOTTEN_SECONDS and all(view.takes_work for view in views):
                del self._nodes[name]
                self._symptoms = {key: s for key, s in self._symptoms.items() if key[0] != name}
            else:
                self._views |= {(name, view.device): view for view in views}
        known = {(*key, view.state, view.reason) for key, view in before.items()}
        changed = [view for key, view in self._views.items() if (*key, view.state, view.reason) not in known]
        for view in changed:
            why = f" ({view.reason}: {view.message})" if view.reason else ""
            self._say(f"health: {view.node} {view.device} is {view.state}{why}")
        if changed or before.keys() - self._views.keys():
            self._wake()

    def _view(
        self, node: _Node, device: health.Device, old: health.DeviceView | None, now: float
    ) -> health.DeviceView:
        name = node.report.node
        checks = {result.name: result for result in device.checks}
        for symptom in self._symptoms.values():
            if (symptom.node, symptom.device) == (name, device.name):
                checks[symptom.check] = health.Result(symptom.check, symptom.state, symptom.message, at=now)
        if device.name == CPU and len(node.returns) >= FLAKY_RETURNS:
            message = f"came back {len(node.returns)} times within {FLAKY_SECONDS:g} s"
            checks[PRESENCE] = health.Result(PRESENCE, WARN, message, at=now)
        results = tuple(sorted(checks.values(), key=lambda result: result.name))
        nothing = health.Result("", UNKNOWN, "not checked yet")
        worst = max(results, key=lambda result: BADNESS[result.state], default=nothing)
        if node.silent and worst.state != EVICT:
            worst = health.Result(SILENT, UNKNOWN, "its health agent does not report")
        reason = "" if worst.state == PASS else worst.name
        message = "" if worst.state == PASS else worst.message
        since = old.since if old is not None and old.state == worst.state else now
        about = (worst.state, reason, message, since, node.heard, results)
        return health.DeviceView(name, device.name, device.model, *about)

    def pages(self) -> tuple[Page, ...]:
        """One endpoint: agents report to it, faults let a check say something, and it shows all."""

        def report(sent: Request) -> Answer:
            return Answer(document=self.report(body(sent.body(), health.AgentReport)))

        def symptom(sent: Request) -> Answer:
            return Answer(document=self.symptom(body(sent.body(), health.Symptom)))

        view = ("GET", "/health", lambda _: Answer(document=self.view()))
        return (view, ("POST", "/health/report", report), ("POST", "/health/symptom", symptom))

    def collect(self) -> Iterator[Metric]:
        """The metrics of health, for prometheus_client."""
        return gauges.families(self.devices())


def _newest(old: tuple[health.Result, ...], new: tuple[health.Result, ...]) -> tuple[health.Result, ...]:
    """What is known of a device: EVICT stays until its check has looked again, and could tell.

    One that hangs is WARN and has no value.
    """
    results = {check.name: check for check in old if check.state == EVICT}
    for check in new:
        measured = check.state != UNKNOWN and (check.state != WARN or check.value is not None)
        before = results.get(check.name)
        results[check.name] = check if measured or before is None else replace(before, at=check.at)
    return tuple(results.values())
