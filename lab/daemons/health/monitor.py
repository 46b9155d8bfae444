"""The monitor of health: takes the agents' reports and people's orders, and answers both. From any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from lab.api.health import (
    AgentReport,
    CheckRequest,
    DeviceView,
    HealthView,
    Lift,
    Ordered,
    Orders,
    Override,
)
from lab.daemons.health import documents
from lab.daemons.health.board import Board
from lab.daemons.health.model import Change, Health
from lab.daemons.pages import body, printable
from lab.errors import NotFoundError, StateError
from lab.host.clock import Clock


class Keeps(Protocol):
    """Keeps one document."""

    def health(self) -> dict[str, object] | None:
        """The document. Raises StateError."""

    def keep_health(self, document: dict[str, object]) -> None:
        """Replace it. Raises StateError."""


class HealthMonitor:
    """Health of one lab. `lock` is held while anything of `board` is read or changed."""

    def __init__(
        self,
        store: Keeps,
        lock: threading.RLock,
        clock: Clock,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Go on with what was kept, or anew where that cannot be read."""
        self.lock, self.clock = lock, clock
        self._store, self._say = store, say
        try:
            remembered = documents.read_kept(store.health())
        except StateError as error:  # the agents will tell of it again
            say(f"the stored health cannot be read, so it starts empty: {error.message}")
            remembered = documents.read_kept(None)
        now = clock()
        self.board = Board(remembered.devices, now)
        for override in remembered.overrides:
            self.board.override(override, now)
        self.board.listen(self._changed)
        self._dirty = False
        self._unkept = ""
        """Reason why the last try to write failed."""
        self._checks: dict[str, tuple[str, ...]] = {}
        self._skipped: dict[str, Mapping[str, str]] = {}
        self._addresses: dict[str, str] = {}
        self._orders: dict[str, dict[str, None]] = {}

    # What an agent says

    def report(self, data: bytes) -> Orders:
        """Take a report; returns the orders for its node. Raises UsageError, StateError."""
        report = body(data, AgentReport)
        node = report.node
        with self.lock:
            now = self.clock()
            self._skipped[node], self._addresses[node] = report.skipped, report.address
            self._checks[node] = report.checks
            self.board.report(
                node,
                report.results,
                now,
                devices=report.devices,
                interval=report.interval,
                boot=report.boot,
            )
            self._keep()
            return self._orders_of(node, now)

    def _orders_of(self, node: str, now: float) -> Orders:
        confirm = {check.check: None for check in self.board.due(now) if check.node == node}
        return Orders(
            now=now,
            run=tuple(self._orders.pop(node, {})),
            confirm=tuple(confirm),
            overrides=tuple(self.board.overrides(node)),
            peers={
                name: address
                for name in self.board.speaking(now)
                if name != node and (address := self._addresses.get(name, ""))
            },
        )

    # What a person or a fault says

    def view(self) -> HealthView:
        """`GET /health`."""
        with self.lock:
            return HealthView(
                now=self.clock(),
                devices=self.devices(),
                overrides=tuple(self.board.overrides()),
                checks=dict(sorted(self._checks.items())),
                skipped=dict(sorted(self._skipped.items())),
            )

    def devices(self) -> tuple[DeviceView, ...]:
        """The state of every device now."""
        with self.lock:
            return tuple(documents.device(state) for state in self.board.states())

    def run(self, data: bytes) -> Ordered:
        """`POST /health/run`: order a check, or all, of one node or all.

        Raises UsageError, NotFoundError.
        """
        asked = body(data, CheckRequest)
        check = asked.check
        with self.lock:
            nodes = self._nodes(asked.node)
            ordered = {}
            for node in nodes:
                known = self._checks.get(node, ())
                if check and check not in known:
                    continue
                ordered[node] = (check,) if check else known
                self._orders.setdefault(node, {}).update(dict.fromkeys(ordered[node]))
            names = sorted({name for node in nodes for name in self._checks.get(node, ())})
        if not ordered:
            raise NotFoundError(f"no node makes the check {check!r}", f"there are: {', '.join(names)}")
        return Ordered(ordered, self.clock())

    def override(self, data: bytes) -> Override:
        """`POST /health/override`: let a check of a device report what is given. Raises as `run`."""
        asked = body(data, Override)
        order = replace(asked, message=printable(asked.message))
        with self.lock:
            self._device(order.node, order.device)
            self.board.override(order, self.clock())
            self._dirty = True
            self._keep()
        return order

    def lift(self, data: bytes) -> Lift:
        """`POST /health/lift`: end an override; one that is not there is ended. Raises UsageError."""
        asked = body(data, Lift)
        with self.lock:
            self.board.lift(asked.node, asked.device, asked.check, self.clock())
            self._dirty = True
            self._keep()
        return asked

    def _nodes(self, name: str) -> Sequence[str]:
        nodes = list(dict.fromkeys(health.node for health in self.board.states()))
        if name and name not in nodes:
            known = f"there are: {', '.join(nodes)}" if nodes else "no agent has reported yet"
            raise NotFoundError(f"no health agent of a node {name!r} is known", known)
        return [name] if name else nodes

    def _device(self, node: str, device: str) -> Health:
        self._nodes(node)
        health = self.board.state(node, device)
        if health is None:
            names = [known.device for known in self.board.states() if known.node == node]
            raise NotFoundError(f"{node} has no device {device!r}", f"it has: {', '.join(names)}")
        return health

    # Time

    def tick(self) -> None:
        """Look at who is silent. To be called about each second."""
        with self.lock:
            self.board.tick(self.clock())
            self._keep()

    # Keeping

    def _changed(self, changes: Sequence[Change]) -> None:
        self._dirty = True
        for change in changes:
            new, old = change.new, change.old
            if new.state != (old.state if old is not None else ""):
                why = f" ({new.reason}: {new.message})" if new.reason else ""
                self._say(f"health: {new.node} {new.device} is {new.state}{why}")

    def _keep(self) -> None:
        """Write what has changed. A disk that is full must not keep the states from being known."""
        if not self._dirty:
            return
        try:
            self._store.keep_health(documents.kept(self.board.states(), self.board.overrides()))
        except StateError as error:  # with the next report or tick it is tried again
            if error.message != self._unkept:
                self._say(f"health is not stored: {error.message}")
            self._unkept = error.message
        else:
            self._dirty, self._unkept = False, ""
