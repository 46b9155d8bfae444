"""The board: results of checks go in, one state for each device comes out. Pure; the caller has the clock.

Results become states as `settle` says, and the worst state of its checks is the state of a device.

An agent that has not reported for `SILENT_AFTER` of its intervals makes its devices UNKNOWN; only EVICT
stays: a broken GPU is not whole because nobody looks at it. A node that comes back `FLAKY_RETURNS` times
within `FLAKY_SECONDS`, each time after silence or as a new process, is WARN for the check `presence`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from lab.api.health import CPU, EVICT, PASS, UNKNOWN, WARN, Device, Override, Result
from lab.daemons.health.model import BADNESS, PRESENCE, SILENT, Change, CheckHealth, Health, Order
from lab.host.quantities import plural


def settle(kept: CheckHealth | None, result: Result, now: float) -> CheckHealth:
    """The state of a check after one more result.

    A state gets worse once `worse_after` results in a row are worse than it: one where a result is a fact
    (an ECC counter), two where it is a measurement that a busy machine can spoil. It gets better once
    `better_after` results in a row are better. Getting worse it takes the least bad state of that row,
    getting better the worst. A result that says UNKNOWN (a check that could not tell) is neither: it leaves
    a state that is known.
    """
    if kept is None or kept.state == UNKNOWN:
        if not result.ordered and result.worse_after > 1 and BADNESS[result.state] > BADNESS[PASS]:
            return CheckHealth(result, PASS, now, (result.state,))
        return CheckHealth(result, result.state, now)
    if result.state == UNKNOWN:
        return replace(kept, result=result)
    if result.ordered or result.state == kept.state:
        since = kept.since if result.state == kept.state else now
        return CheckHealth(result, result.state, since)
    worse = BADNESS[result.state] > BADNESS[kept.state]
    row = (*(past for past in kept.row if _beyond(past, kept.state, worse)), result.state)
    if len(row) < (result.worse_after if worse else result.better_after):
        return replace(kept, result=result, row=row)
    mildest = (min if worse else max)(row, key=BADNESS.__getitem__)
    return CheckHealth(result, mildest, now)


def _beyond(state: str, kept: str, worse: bool) -> bool:
    return (BADNESS[state] > BADNESS[kept]) if worse else (BADNESS[state] < BADNESS[kept])


DEFAULT_INTERVAL = 5.0
"""Seconds between reports of an agent that does not say."""

SILENT_AFTER = 3.0
LATE_SECONDS = 5.0
"""A tick that comes later than this after the last one finds nobody more silent than that did."""

FLAKY_RETURNS = 3
FLAKY_SECONDS = 90.0
FORGOTTEN_SECONDS = 3600.0
"""A node that has been silent as long is no longer listed, unless a device of it is EVICT."""


@dataclass
class _Node:
    """All that is known of one node."""

    heard: float
    interval: float
    awaited: float = 0.0
    """Since when a report can be expected, where that is later."""
    boot: str = ""
    devices: dict[str, Device] = field(default_factory=dict)
    checks: dict[tuple[str, str], CheckHealth] = field(default_factory=dict)
    """(device, check) -> its state."""
    silent: bool = False
    returns: tuple[float, ...] = ()

    def quiet(self, now: float) -> float:
        """Seconds without a report that could have come."""
        return now - max(self.heard, self.awaited)


class Board:
    """Every device of a lab with its state. Not safe for threads: whoever shares it holds a lock."""

    def __init__(self, kept: Iterable[Health] = (), now: float = 0.0) -> None:
        """Go on from what was kept, each node as if it had reported `now`."""
        self._nodes: dict[str, _Node] = {}
        self._known: dict[tuple[str, str], Health] = {}
        self._overrides: dict[tuple[str, str, str], Override] = {}
        self._listeners: list[Callable[[Sequence[Change]], None]] = []
        self._ticked: float | None = None
        for health in kept:
            node = self._nodes.setdefault(health.node, _Node(health.heard, DEFAULT_INTERVAL, now))
            node.devices[health.device] = Device(health.device, health.model)
            node.checks.update({(health.device, check.name): check for check in health.checks})
            self._known[health.node, health.device] = health

    # Reading

    def states(self) -> tuple[Health, ...]:
        """Every device as of the last change, by node and name, `cpu` last."""
        order = sorted(self._known, key=lambda key: (key[0], key[1] == CPU, key[1]))
        return tuple(self._known[key] for key in order)

    def state(self, node: str, device: str) -> Health | None:
        """One device; None when no agent has told of it."""
        return self._known.get((node, device))

    def speaking(self, now: float) -> tuple[str, ...]:
        """Nodes whose agent reports."""
        return tuple(
            name for name, node in self._nodes.items() if node.quiet(now) <= SILENT_AFTER * node.interval
        )

    def overrides(self, node: str = "") -> tuple[Override, ...]:
        """Orders that hold now, those of one node or all."""
        return tuple(override for override in self._overrides.values() if node in ("", override.node))

    def due(self, now: float) -> tuple[Order, ...]:
        """Checks whose last result differs from their state: they run again soon, to settle it."""
        return tuple(
            Order(name, check.name)
            for name in self.speaking(now)
            for check in self._nodes[name].checks.values()
            if not check.settled and check.name != PRESENCE and check.result.state != UNKNOWN
        )

    def listen(self, listener: Callable[[Sequence[Change]], None]) -> None:
        """Call `listener` with the changes of each step, at its end. It must be fast and raise nothing."""
        self._listeners.append(listener)

    # Changing

    def report(
        self,
        node: str,
        results: Sequence[Result],
        now: float,
        *,
        devices: Sequence[Device] = (),
        interval: float = 0.0,
        boot: str = "",
    ) -> tuple[Change, ...]:
        """Take up what an agent found, which may be nothing: the report alone says that it lives.

        `devices` are all that it has, `interval` the seconds until it reports again, `boot` names its life.
        """
        kept = self._nodes.get(node)
        if kept is None:
            kept = self._nodes[node] = _Node(now, interval or DEFAULT_INTERVAL, boot=boot)
        if kept.silent or (boot and kept.boot and boot != kept.boot):
            kept.returns = (*kept.returns, now)
        kept.heard, kept.silent, kept.boot = now, False, boot or kept.boot
        kept.interval = interval or kept.interval
        if devices:
            kept.devices = {device.name: device for device in devices}
            kept.checks = {key: health for key, health in kept.checks.items() if key[0] in kept.devices}
        for result in results:
            kept.devices.setdefault(result.device, Device(result.device))
            key = (result.device, result.check)
            kept.checks[key] = settle(kept.checks.get(key), result, now)
        return self._step(now)

    def tick(self, now: float) -> tuple[Change, ...]:
        """Look at who has become silent, and at what is over. To be called about each second.

        While nobody looked, as on a machine that stood still, nobody was silent.
        """
        last, self._ticked = self._ticked, now
        if last is not None and now - last > LATE_SECONDS:
            for node in self._nodes.values():
                node.awaited = max(node.awaited, now - max(0.0, node.quiet(last)))
        return self._step(now)

    def override(self, order: Override, now: float) -> tuple[Change, ...]:
        """Order a result. The agent is told with its next report, and runs the check at once."""
        self._overrides[order.node, order.device, order.check] = order
        return self._step(now)

    def lift(self, node: str, device: str, check: str, now: float) -> tuple[Change, ...]:
        """End an override: the state is what the check itself finds next, after `better_after` results."""
        self._overrides.pop((node, device, check), None)
        return self._step(now)

    def forget(self, node: str, now: float) -> None:
        """Drop a node that is no longer of this lab."""
        self._nodes.pop(node, None)
        self._known = {key: health for key, health in self._known.items() if key[0] != node}
        self._overrides = {key: override for key, override in self._overrides.items() if key[0] != node}

    # Deciding

    def _step(self, now: float) -> tuple[Change, ...]:
        changes: list[Change] = []
        for name, node in list(self._nodes.items()):
            quiet = node.quiet(now)
            node.silent = node.silent or quiet > SILENT_AFTER * node.interval
            self._presence(node, now)
            for device in node.devices.values():
                changes += self._device(name, node, device, now)
            for gone in [key for key in self._known if key[0] == name and key[1] not in node.devices]:
                del self._known[gone]
            broken = any(health.state == EVICT for key, health in self._known.items() if key[0] == name)
            if quiet > FORGOTTEN_SECONDS and not broken:
                self.forget(name, now)
        if changes:
            for listener in self._listeners:
                listener(changes)
        return tuple(changes)

    def _presence(self, node: _Node, now: float) -> None:
        """The check of a node that comes and goes."""
        node.returns = tuple(at for at in node.returns if now - at <= FLAKY_SECONDS)
        count, key = len(node.returns), (CPU, PRESENCE)
        if CPU not in node.devices or (not count and key not in node.checks):
            return
        bad = count >= FLAKY_RETURNS
        message = f"came back {plural(count, 'time')} within {FLAKY_SECONDS:g} s" if count else ""
        result = Result(
            PRESENCE, CPU, WARN if bad else PASS, float(count), "returns", message, at=now, better_after=1
        )
        node.checks[key] = settle(node.checks.get(key), result, now)

    def _device(self, name: str, node: _Node, device: Device, now: float) -> Iterable[Change]:
        old = self._known.get((name, device.name))
        checks = [health for key, health in node.checks.items() if key[0] == device.name]
        checks.sort(key=lambda health: health.name)
        state, reason, message = self._judge(node, checks)
        since = old.since if old is not None and old.state == state else now
        about = state, reason, message, since, tuple(checks), device.model, node.heard
        new = self._known[name, device.name] = Health(name, device.name, *about)
        if old is None or (old.state, old.reason) != (state, reason):
            yield Change(now, old, new)

    def _judge(self, node: _Node, checks: Sequence[CheckHealth]) -> tuple[str, str, str]:
        """State, reason and message of a device."""
        worst = max(checks, key=lambda check: BADNESS[check.state], default=None)
        if worst is not None and worst.state == EVICT:
            return EVICT, worst.name, worst.result.message
        if node.silent:
            return UNKNOWN, SILENT, "its health agent does not report"
        if worst is None or worst.state == UNKNOWN:
            return UNKNOWN, worst.name if worst else "", worst.result.message if worst else "not checked yet"
        return (worst.state, worst.name, worst.result.message) if worst.state == WARN else (PASS, "", "")
