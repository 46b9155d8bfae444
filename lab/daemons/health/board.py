"""The board: agents report what their checks found, and each device has the worst state of its checks.

An agent that has not reported for `SILENT_AFTER` of its intervals makes its devices UNKNOWN; only EVICT
stays: a broken GPU is not whole because nobody looks at it. A node that comes back `FLAKY_RETURNS` times
within `FLAKY_SECONDS`, each time after silence or as a new process, is WARN for the check `presence`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from lab.api.base import parse, plain
from lab.api.health import (
    CPU,
    EVICT,
    PASS,
    UNKNOWN,
    WARN,
    AgentReport,
    Device,
    DeviceView,
    HealthView,
    Heard,
    Result,
    Symptom,
)  # fmt: skip
from lab.daemons.pages import Answer, Handler, Page, Request, body, printable
from lab.errors import NotFoundError, StateError
from lab.host.clock import Clock

M = TypeVar("M", AgentReport, Symptom)

BADNESS: Mapping[str, int] = {UNKNOWN: 0, PASS: 1, WARN: 2, EVICT: 3}
"""How bad the result of a check is; the worst of a device's checks counts."""

SILENT, PRESENCE = "silent", "presence"
"""Reasons that no agent reports: it does not report, or it came and went."""

INTERVAL_SECONDS = 5.0
"""Time between the reports of a node that was known before the controller began."""

SILENT_AFTER = 3.0
LATE_SECONDS = 5.0
"""A tick that comes later than this after the last one finds nobody more silent than that did."""

FLAKY_RETURNS = 3
FLAKY_SECONDS = 90.0
FORGOTTEN_SECONDS = 3600.0
"""A node that has been silent as long is no longer listed, unless a device of it is EVICT."""


class Keeps(Protocol):
    """Keeps one document."""

    def health(self) -> dict[str, object] | None:
        """The document. Raises StateError."""

    def keep_health(self, document: dict[str, object]) -> None:
        """Replace it. Raises StateError."""


@dataclass(frozen=True)
class Kept:
    """All that outlives a controller."""

    devices: tuple[DeviceView, ...] = ()
    symptoms: tuple[Symptom, ...] = ()


@dataclass
class _Node:
    """What a node reported last, and when."""

    report: AgentReport
    heard: float
    awaited: float
    """Since when a report can be expected, where that is later."""
    returns: tuple[float, ...] = ()
    silent: bool = False

    def quiet(self, now: float) -> float:
        """Seconds without a report that could have come."""
        return now - max(self.heard, self.awaited)


class Board:
    """Health of one lab, from any thread. Listeners are called when a state has changed, under the lock."""

    def __init__(
        self, store: Keeps, lock: threading.RLock, clock: Clock, say: Callable[[str], None] = lambda _: None
    ) -> None:
        """Go on with what was kept, each node as if it had reported now; anew where that cannot be read."""
        self.listeners: list[Callable[[], None]] = []
        self._store, self._lock, self._clock, self._say = store, lock, clock, say
        try:
            kept = parse(Kept, store.health() or {}, "the stored health", StateError)
        except StateError as error:  # the agents will tell of it again
            say(f"the stored health cannot be read, so it starts empty: {error.message}")
            kept = Kept()
        self._views = {(view.node, view.device): view for view in kept.devices}
        self._symptoms = {(s.node, s.device, s.check): s for s in kept.symptoms}
        self._nodes: dict[str, _Node] = {}
        for node in dict.fromkeys(view.node for view in kept.devices):
            mine = [view for view in kept.devices if view.node == node]
            devices = tuple(Device(view.device, view.model, self._own(view)) for view in mine)
            report = AgentReport(node, "", INTERVAL_SECONDS, "", devices, {})
            self._nodes[node] = _Node(report, mine[0].heard, clock())
        self._ticked = clock()
        self._dirty = False
        self._unkept = ""
        """Reason why the last try to write failed."""

    def _own(self, view: DeviceView) -> tuple[Result, ...]:
        """What the agent itself had found."""
        where = (view.node, view.device)
        return tuple(
            result
            for result in view.checks
            if result.name != PRESENCE and (*where, result.name) not in self._symptoms
        )

    # What an agent says

    def report(self, report: AgentReport) -> Heard:
        """Take a report; returns what its node has to know."""
        node = report.node
        with self._lock:
            now = self._clock()
            old = self._nodes.get(node)
            before = {} if old is None else {device.name: device.checks for device in old.report.devices}
            devices = tuple(
                replace(device, checks=_newest(before.get(device.name, ()), device.checks, report.skipped))
                for device in report.devices
            )
            new = self._nodes[node] = _Node(replace(report, devices=devices), now, now)
            if old is not None:
                again = old.silent or "" != old.report.boot != report.boot
                new.returns = (*old.returns, now) if again else old.returns
            self._step(now)
            others = (other for other in self._nodes.values() if other is not new and not other.silent)
            peers = {other.report.node: other.report.address for other in others if other.report.address}
            return Heard(now, peers)

    # What is shown, and what a fault says

    def view(self) -> HealthView:
        with self._lock:
            skipped = {name: node.report.skipped for name, node in sorted(self._nodes.items())}
            return HealthView(self._clock(), self.devices(), tuple(self._symptoms.values()), skipped)

    def devices(self) -> tuple[DeviceView, ...]:
        """Every device now, by node and name, `cpu` last."""
        with self._lock:
            order = sorted(self._views, key=lambda key: (key[0], key[1] == CPU, key[1]))
            return tuple(self._views[key] for key in order)

    def symptom(self, asked: Symptom) -> Symptom:
        """Let a check say what a fault wants, or end that; one that is not there is ended.

        Raises NotFoundError.
        """
        symptom, key = (
            replace(asked, message=printable(asked.message)),
            (asked.node, asked.device, asked.check),
        )
        with self._lock:
            if symptom.state == PASS:
                self._symptoms.pop(key, None)
            else:
                self._check_known(asked.node, asked.device)
                self._symptoms[key] = symptom
            self._dirty = True
            self._step(self._clock())
        return symptom

    def _check_known(self, node: str, device: str) -> None:
        """Refuse a device that no agent has told of. Raises NotFoundError."""
        if node not in self._nodes:
            there = ", ".join(sorted(self._nodes)) or "none yet"
            raise NotFoundError(f"no health agent of a node {node!r} is known", f"there are: {there}")
        if (node, device) not in self._views:
            there = ", ".join(name for other, name in self._views if other == node)
            raise NotFoundError(f"{node} has no device {device!r}", f"it has: {there}")

    # Deciding

    def tick(self) -> None:
        """Look at who has become silent. To be called about each second.

        While nobody looked, as on a machine that stood still, nobody was silent.
        """
        with self._lock:
            now = self._clock()
            last, self._ticked = self._ticked, now
            if now - last > LATE_SECONDS:
                for node in self._nodes.values():
                    node.awaited = max(node.awaited, now - max(0.0, node.quiet(last)))
            self._step(now)

    def _step(self, now: float) -> None:
        """Decide what follows from all that is known, tell what is new, and keep it."""
        views: dict[tuple[str, str], DeviceView] = {}
        self._symptoms = {k: s for k, s in self._symptoms.items() if s.until is None or now < s.until}
        for name, node in list(self._nodes.items()):
            node.silent = node.silent or node.quiet(now) > SILENT_AFTER * node.report.interval
            node.returns = tuple(at for at in node.returns if now - at <= FLAKY_SECONDS)
            shown = [self._view(node, device, now) for device in node.report.devices]
            if node.quiet(now) > FORGOTTEN_SECONDS and all(view.takes_work for view in shown):
                del self._nodes[name]
                self._symptoms = {key: value for key, value in self._symptoms.items() if key[0] != name}
            else:
                views.update({(name, view.device): view for view in shown})
        before, self._views = self._views, views
        changed = [key for key, view in views.items() if _says(view) != _says(before.get(key))]
        for key in changed:
            view, old = views[key], before.get(key)
            if old is None or old.state != view.state:
                why = f" ({view.reason}: {view.message})" if view.reason else ""
                self._say(f"health: {view.node} {view.device} is {view.state}{why}")
        if changed or before.keys() - views.keys():
            self._dirty = True
            for listener in self.listeners:
                listener()
        self._keep()

    def _view(self, node: _Node, device: Device, now: float) -> DeviceView:
        name = node.report.node
        checks = {result.name: result for result in device.checks}
        for symptom in self._symptoms.values():
            if (symptom.node, symptom.device) == (name, device.name):
                checks[symptom.check] = Result(symptom.check, symptom.state, symptom.message, at=now)
        if device.name == CPU and len(node.returns) >= FLAKY_RETURNS:
            message = f"came back {len(node.returns)} times within {FLAKY_SECONDS:g} s"
            checks[PRESENCE] = Result(PRESENCE, WARN, message, at=now)
        results = tuple(sorted(checks.values(), key=lambda result: result.name))
        nothing = Result("", UNKNOWN, "not checked yet")
        worst = max(results, key=lambda result: BADNESS[result.state], default=nothing)
        if node.silent and worst.state != EVICT:
            worst = Result(SILENT, UNKNOWN, "its health agent does not report")
        elif worst.state == PASS:
            worst = Result("", PASS)
        old = self._views.get((name, device.name))
        since = old.since if old is not None and old.state == worst.state else now
        about = worst.state, worst.name, worst.message, since, node.heard, results
        return DeviceView(name, device.name, device.model, *about)

    def _keep(self) -> None:
        """Write what has changed. A disk that is full must not keep the states from being known."""
        if not self._dirty:
            return
        try:
            self._store.keep_health(plain(Kept(self.devices(), tuple(self._symptoms.values()))))
        except StateError as error:  # with the next report or tick it is tried again
            if error.message != self._unkept:
                self._say(f"health is not stored: {error.message}")
            self._unkept = error.message
        else:
            self._dirty, self._unkept = False, ""


def _newest(old: Iterable[Result], new: Iterable[Result], skipped: Container[str]) -> tuple[Result, ...]:
    """What is known of a device. What a node found before it started again holds until it has looked again.

    A check that could not tell leaves what it found before; one that cannot be made any more, or did not end
    (it is WARN and has no value), leaves EVICT.
    """
    results = {result.name: result for result in old if result.name not in skipped or result.state == EVICT}
    for result in new:
        before = results.get(result.name, result)
        hung = result.state == WARN and result.value is None
        keeps = result.state == UNKNOWN or (hung and before.state == EVICT)
        results[result.name] = replace(before, at=result.at) if keeps else result
    return tuple(results.values())


def _says(view: DeviceView | None) -> tuple[str, str] | None:
    return None if view is None else (view.state, view.reason)


def routes(board: Board) -> tuple[Page, ...]:
    """The pages of health, which the queues' controller serves beside its own."""

    def taking(model: type[M], act: Callable[[M], object]) -> Handler:
        def handler(request: Request) -> Answer:
            return Answer(document=act(body(request.body(), model)))

        return handler

    return (
        ("GET", "/health", lambda _: Answer(document=board.view())),
        ("POST", "/health/report", taking(AgentReport, board.report)),
        ("POST", "/health/symptom", taking(Symptom, board.symptom)),
    )
