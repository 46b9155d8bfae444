"""The health agent of one node: runs its checks by their schedule and tells the controller what they found.

Every BEAT_SECONDS it reports to the service `queue`, which shows that it lives; a result that says something
new is told at once. The answer brings orders: checks to run now, results that a fault wants (overrides),
and the other nodes. One check runs at a time, in the runner.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from raylab_health.examine import hung
from raylab_health.model import CPU, GPU, UNKNOWN, Check, Context
from raylab_health.runner import Runner

BEAT_SECONDS = 5.0
"""Time between two reports; after three of them a node without any is UNKNOWN."""

FIRST_SECONDS = 3.0
"""Pause before the first check: a node that starts has better things to do."""

SPREAD_SECONDS = 60.0
"""The first runs of checks with longer intervals are spread over this time."""

JITTER = 0.1
"""Part of an interval by which two runs may be nearer or farther, so that nodes do not beat together."""

CONFIRM_SECONDS = 10.0
"""Time until a check runs again whose last result has to be confirmed."""

MISSING_SECONDS = 60.0
"""Least time until a check is tried again that cannot be made on this node."""

CLOCKS = 6
"""Answers of which the quickest tells the difference of the clocks."""

Key = tuple[str, str]
"""Check and device."""


Post = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Sends a report, and returns the answer. Raises OSError, ValueError."""


class Agent:
    """Decides what runs and what is told. `step` is called again and again, by one thread."""

    def __init__(
        self,
        node: str,
        boot: str,
        checks: Sequence[Check],
        context: Context,
        runner: Runner,
        post: Post,
        *,
        gpus: int = 0,
        address: str = "",
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`boot` names this life, `gpus` is their number as Ray was told, `address` that of a listener."""
        self.node, self.boot, self.address = node, boot, address
        self.checks = {check.name: check for check in checks}
        self.devices: list[dict[str, str]] = []
        self._context, self._runner, self._post = context, runner, post
        self._gpus, self._chance = gpus, chance
        self._due: dict[Key, float] = {}
        self._results: dict[Key, dict[str, Any]] = {}
        """Results that were not told yet."""
        self._reported: dict[Key, tuple[str, bool]] = {}
        """State, and whether it was ordered, as last told."""
        self._skipped: dict[str, str] = {}
        self._overrides: dict[Key, dict[str, Any]] = {}
        self._facts: dict[str, Any] = {}
        self._clocks: list[tuple[float, float]] = []
        self._running: tuple[Key, float] | None = None
        """What runs, and when it is ended; the check `` asks for the devices."""
        self._beat = context.monotonic() + FIRST_SECONDS
        self._urgent = False

    def step(self, wait: bool = True) -> None:
        """Do what is due, and wait until more is; without `wait` it returns at once."""
        now = self._context.monotonic()
        if not self.devices and self._running is None and now >= self._beat:
            self._begin(("", ""), now, {"devices": self._gpus}, 30.0)
        if self._running is None:
            self._next(now)
        if self._running is not None:
            self._collect(now, wait)
        if self._urgent or self._context.monotonic() >= self._beat:
            self._tell()
        if wait and self._running is None:
            self._context.sleep(min(1.0, max(0.02, self._wake() - self._context.monotonic())))

    # Running

    def _wake(self) -> float:
        """When something is due next."""
        return min([self._beat, *self._due.values()])

    def _next(self, now: float) -> None:
        """Begin the check that has been due for longest."""
        due = [(at, key) for key, at in self._due.items() if at <= now]
        if not due:
            return
        _, key = min(due)
        check = self.checks[key[0]]
        override = self._overrides.get(key)
        request = {"check": key[0], "device": key[1], "override": override, "facts": self._facts}
        self._begin(key, now, request, check.deadline)

    def _begin(self, key: Key, now: float, request: Mapping[str, Any], seconds: float) -> None:
        self._running = key, now + seconds
        try:
            self._runner.begin(request)
        except OSError:  # no process can be forked: the deadline will say so
            return

    def _collect(self, now: float, wait: bool) -> None:
        """Take the answer of what runs, or end it after its deadline."""
        assert self._running is not None
        key, end = self._running
        until = min(end, self._beat)
        answer = self._runner.poll(max(0.0, until - now) if wait else 0.0)
        late = self._context.monotonic() >= end
        if answer is None and not late:
            return
        self._running = None
        if answer is None:
            self._runner.kill()
        if not key[0]:
            self._begin_with((answer or {}).get("devices") or [{"name": CPU, "model": ""}])
            return
        check, after = self.checks[key[0]], self.checks[key[0]].interval
        if answer is None or "died" in answer:
            self._put(hung(check, key[1], self._context))
        elif "missing" in answer:
            self._skipped[key[0]] = str(answer["missing"])
            after = max(after, MISSING_SECONDS)
        else:
            self._skipped.pop(key[0], None)
            self._put(answer["result"])
        self._schedule(key, after)

    def _schedule(self, key: Key, after: float) -> None:
        jitter = 1 + JITTER * (2 * self._chance() - 1)
        self._due[key] = self._context.monotonic() + after * jitter

    def _begin_with(self, devices: list[dict[str, str]]) -> None:
        """Begin with these devices: the first runs are spread, those of cheap checks over one interval."""
        self.devices = devices
        now = self._context.monotonic()
        for check in self.checks.values():
            for device in devices:
                if (device["name"] != CPU) == (check.kind == GPU):
                    spread = min(check.interval, SPREAD_SECONDS)
                    self._due[check.name, device["name"]] = now + spread * self._chance()
        self._urgent = True

    def _put(self, result: dict[str, Any]) -> None:
        """Keep a result for the next report; one that says something new makes it come at once."""
        key = (result["check"], result["device"])
        said = (result["state"], result["ordered"])
        self._results[key] = result
        if said[0] != UNKNOWN and self._reported.get(key) != said:
            self._urgent = True

    # Telling

    def _tell(self) -> None:
        """Report, and take the orders of the answer."""
        if not self.devices:
            self._beat = self._context.monotonic() + 1.0
            return
        sent = list(self._results.items())
        begin, wall = self._context.monotonic(), self._context.wall()
        self._urgent = False
        self._beat = begin + BEAT_SECONDS
        try:
            answer = self._post(
                {
                    "node": self.node,
                    "boot": self.boot,
                    "interval": BEAT_SECONDS,
                    "devices": self.devices,
                    "checks": [
                        name
                        for name in self.checks
                        if any(self._has(name, device["name"]) for device in self.devices)
                    ],
                    "address": self.address,
                    "results": [result for _, result in sent],
                    "skipped": self._skipped,
                }
            )
        except (OSError, ValueError):
            return  # the controller is away: the newest results are told when it is back
        took = self._context.monotonic() - begin
        for key, result in sent:
            self._reported[key] = (result["state"], result["ordered"])
            if self._results.get(key) is result:
                del self._results[key]
        self._obey(answer, wall, took)

    def _obey(self, answer: Mapping[str, Any], wall: float, took: float) -> None:
        now = self._context.monotonic()
        self._clocks = [*self._clocks, (took / 2, wall + took / 2 - float(answer["now"]))][-CLOCKS:]
        doubt, skew = min(self._clocks)
        self._facts = {"peers": answer.get("peers") or {}, "clock": {"skew": skew, "doubt": doubt}}
        ordered = {
            (override["check"], override["device"]): override for override in answer.get("overrides") or ()
        }
        for key in {*ordered, *self._overrides}:
            if ordered.get(key) != self._overrides.get(key) and self._has(*key):
                self._due[key] = now
        self._overrides = ordered
        for name in answer.get("run") or ():
            for device in self.devices:
                if self._has(name, device["name"]):
                    self._due[name, device["name"]] = now
        for name in answer.get("confirm") or ():
            for device in self.devices:
                if self._has(name, device["name"]):
                    key = (name, device["name"])
                    self._due[key] = min(self._due.get(key, now + CONFIRM_SECONDS), now + CONFIRM_SECONDS)

    def _has(self, check: str, device: str) -> bool:
        """True when this node makes the check on this device."""
        known = self.checks.get(check)
        return known is not None and any(
            device_row["name"] == device and (device != CPU) == (known.kind == GPU)
            for device_row in self.devices
        )
