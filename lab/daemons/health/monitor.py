"""Monitor of health: takes the agents' reports and people's orders, and answers both. From any thread.

An invasive check needs its device for itself. Its agent wishes for it; when nothing runs on that node the
device becomes TESTING, so that nothing new is placed there; and when a second look, a moment later, still
finds it free, the agent's next report is answered with the grant.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Protocol

from lab.daemons.health import documents
from lab.daemons.health.board import Board
from lab.daemons.health.documents import Document
from lab.daemons.health.model import SILENT, Health, Override, StateChange
from lab.daemons.queue.requests import body, plain
from lab.errors import LabError, NotFoundError, StateError
from lab.host.clock import Clock

PACKAGE = "lab.daemons.health"

LOOK_SECONDS = 2.0
"""Time between two looks at what runs on a node."""

TRIAL_SECONDS = 3600.0
"""Longest time that an invasive check may have its device."""


class Keeps(Protocol):
    """Keeps one document; see lab.daemons.queue.store."""

    def health(self) -> Document | None:
        """The document. Raises StateError."""

    def keep_health(self, document: Document) -> None:
        """Replace it. Raises StateError."""


Free = Callable[[str], bool]
"""Tells if nothing runs on a node. Raises LabError when Ray does not answer."""


class HealthMonitor:
    """Health of one lab. `lock` is held while anything of `board` is read or changed."""

    def __init__(
        self,
        store: Keeps,
        free: Free,
        lock: threading.RLock,
        clock: Clock,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Go on with what was kept, or anew where that cannot be read."""
        self.lock, self.clock = lock, clock
        self._store, self._free, self._say = store, free, say
        try:
            remembered = documents.read_kept(store.health())
        except (StateError, ValueError, TypeError, KeyError) as error:  # the agents will tell of it again
            say(f"the kept health cannot be read, it begins anew: {error!r}")
            remembered = documents.read_kept(None)
        now = clock()
        self.board = Board(remembered.devices, now)
        for override in remembered.overrides:
            self.board.override(override, now)
        self.board.listen(self._changed)
        self._dirty = False
        self._unkept = ""
        """Reason why the last try to write failed."""
        self._checks: dict[str, dict[str, bool]] = {}
        """Node -> its checks, and whether each is invasive."""
        self._skipped: dict[str, dict[str, str]] = {}
        self._addresses: dict[str, str] = {}
        self._orders: dict[str, dict[str, None]] = {}
        self._wishes: dict[tuple[str, str], str] = {}
        """(node, device) -> invasive check that waits for it."""
        self._granted: set[tuple[str, str]] = set()
        self._looked = 0.0

    # What an agent says

    def report(self, data: bytes) -> Document:
        """Take a report; returns the orders for its node. Raises UsageError, StateError."""
        given = body(data, "report", PACKAGE)
        node = given["node"]
        with self.lock:
            now = self.clock()
            self._skipped[node], self._addresses[node] = given["skipped"], given["address"]
            self._checks[node] = given["checks"]
            mine = {wish["device"]: wish["check"] for wish in given["wishes"]}
            self._wishes = {
                **{key: check for key, check in self._wishes.items() if key[0] != node},
                **{(node, device): check for device, check in mine.items()},
            }
            self.board.report(
                node,
                documents.results(given),
                now,
                devices=documents.devices(given),
                interval=given["interval"],
                boot=given["boot"],
            )
            self._keep()
            return self._answer(node, now)

    def _answer(self, node: str, now: float) -> Document:
        confirm = {due.check: None for due in self.board.due(now) if due.node == node}
        granted = [
            {"check": trial.check, "device": trial.device}
            for trial in self.board.trials(node)
            if (node, trial.device) in self._granted
        ]
        return {
            "now": now,
            "run": list(self._orders.pop(node, {})),
            "confirm": list(confirm),
            "overrides": [asdict(override) for override in self.board.overrides(node)],
            "granted": granted,
            "peers": {
                name: address
                for name in self.board.speaking(now)
                if name != node and (address := self._addresses.get(name, ""))
            },
        }

    # What a person or a fault says

    def view(self) -> Document:
        """`GET /health`."""
        with self.lock:
            return {
                "now": self.clock(),
                "devices": [documents.health(health) for health in self.board.states()],
                "overrides": [asdict(override) for override in self.board.overrides()],
                "checks": {node: dict(invasive) for node, invasive in sorted(self._checks.items())},
                "skipped": {node: dict(reasons) for node, reasons in sorted(self._skipped.items())},
            }

    def run(self, data: bytes) -> Document:
        """`POST /health/run`: order a check, or all that are not invasive, of one node or all.

        Raises UsageError, NotFoundError.
        """
        given = body(data, "run", PACKAGE)
        check = given.get("check", "")
        with self.lock:
            nodes = self._nodes(given.get("node", ""))
            ordered = {}
            for node in nodes:
                known = self._checks.get(node, {})
                if check and check not in known:
                    continue
                usual = [name for name, invasive in known.items() if not invasive]
                ordered[node] = [check] if check else usual
                self._orders.setdefault(node, {}).update(dict.fromkeys(ordered[node]))
            names = sorted({name for node in nodes for name in self._checks.get(node, ())})
        if not ordered:
            raise NotFoundError(f"no node makes the check {check!r}", f"there are: {', '.join(names)}")
        return {"ordered": ordered, "now": self.clock()}

    def override(self, data: bytes) -> Document:
        """`POST /health/override`: let a check of a device report what is given. Raises as `run`."""
        given = body(data, "override", PACKAGE)
        with self.lock:
            self._device(given["node"], given["device"])
            value = given.get("value")
            order = Override(
                given["node"],
                given["device"],
                given["check"],
                given["state"],
                None if value is None else float(value),
                plain(given.get("message", "")),
            )
            self.board.override(order, self.clock())
            self._dirty = True
            self._keep()
        return asdict(order)

    def lift(self, data: bytes) -> Document:
        """`POST /health/lift`: end an override; one that is not there is ended. Raises UsageError."""
        given = body(data, "lift", PACKAGE)
        with self.lock:
            self.board.lift(given["node"], given["device"], given["check"], self.clock())
            self._dirty = True
            self._keep()
        return {"node": given["node"], "device": given["device"], "check": given["check"]}

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
        """Look at who is silent, and at who wishes for a device. To be called about each second."""
        with self.lock:
            now = self.clock()
            self.board.tick(now)
            for trial in self.board.trials():
                state = self.board.state(trial.node, trial.device)
                if state is None or state.reason == SILENT or now - trial.since > TRIAL_SECONDS:
                    self._end(trial.node, trial.device, now)
            self._granted = {(trial.node, trial.device) for trial in self.board.trials()} & self._granted
            self._keep()
            waiting = dict(self._wishes) if now - self._looked >= LOOK_SECONDS else {}
            if waiting:
                self._looked = now
        free: dict[str, bool] = {}
        for node, _ in waiting:  # without the lock: Ray is asked over HTTP
            if node not in free:
                try:
                    free[node] = self._free(node)
                except LabError:
                    return
        with self.lock:
            for (node, device), check in waiting.items():
                self._consider(node, device, check, self.clock(), free=free[node])
            self._keep()

    def _consider(self, node: str, device: str, check: str, now: float, *, free: bool) -> None:
        """Take one step towards the grant of a device, or back."""
        trial = next((candidate for candidate in self.board.trials(node) if candidate.device == device), None)
        if trial is None:
            if free and self._wishes.get((node, device)) == check:
                self.board.begin_trial(node, device, check, now)
        elif (node, device) not in self._granted:
            if free:
                self._granted.add((node, device))
            else:
                self._end(node, device, now)

    def _end(self, node: str, device: str, now: float) -> None:
        self._granted.discard((node, device))
        self.board.end_trial(node, device, now)

    # Keeping

    def _changed(self, changes: Sequence[StateChange]) -> None:
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
                self._say(f"health is not kept: {error.message}")
            self._unkept = error.message
        else:
            self._dirty, self._unkept = False, ""
