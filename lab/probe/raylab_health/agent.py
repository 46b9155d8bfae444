"""The health agent of one node: runs its checks by their schedule and tells the controller what they found.

Every BEAT_SECONDS it reports to the service `queue`, which shows that it lives; a new state is told at once.
The answer brings the time and the other nodes. One check runs at a time, in the runner.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from raylab_health.examine import examined
from raylab_health.model import CPU, EVICT, GPU, UNKNOWN, WARN, Check, Context, Finding
from raylab_health.runner import Runner

BEAT_SECONDS = 5.0
"""Time between two reports; after three of them a node without any is UNKNOWN."""

FIRST_SECONDS = 3.0
"""Pause before the first check: a node that starts has better things to do."""

SPREAD_SECONDS = 60.0
"""The first runs of checks with longer intervals are spread over this time."""

JITTER = 0.1
"""Part of an interval by which two runs may be nearer or farther, so that nodes do not beat together."""

AGAIN_SECONDS, AGAIN_SHARE = 10.0, 1 / 60
"""Time, or part of its interval, until a check runs again that found something bad."""

MISSING_SECONDS = 60.0
"""Least time until a check is tried again that cannot be made on this node."""

CLOCKS = 6
"""Answers of which the quickest tells the difference of the clocks."""

Key = tuple[str, str]
"""Check and device."""

DEVICES: Key = ("", "")
"""What runs first, and again until it is answered: it asks for the devices."""
DEVICES_SECONDS = 30.0

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
        self._due: dict[Key, float] = {DEVICES: context.monotonic() + FIRST_SECONDS}
        self._results: dict[Key, dict[str, Any]] = {}
        self._skipped: dict[str, str] = {}
        self._facts: dict[str, Any] = {}
        self._clocks: list[tuple[float, float]] = []
        self._running: tuple[Key, float] | None = None
        """What runs, and when it is ended."""
        self._beat = math.inf
        """When the next report is due: the first one is told with the devices."""
        self._urgent = False

    def step(self) -> None:
        """Do what is due, and wait until more is."""
        now = self._context.monotonic()
        if self._running is None:
            self._next(now)
        if self._running is not None:
            self._collect(*self._running, now)
        if self._urgent or self._context.monotonic() >= self._beat:
            self._tell()
        if self._running is None:
            wake = min([self._beat, *self._due.values()])
            self._context.sleep(min(1.0, max(0.02, wake - self._context.monotonic())))

    # Running

    def _next(self, now: float) -> None:
        """Begin what has been due for longest."""
        due = [(at, key) for key, at in self._due.items() if at <= now]
        if not due:
            return
        _, key = min(due)
        del self._due[key]
        self._running = key, now + (self.checks[key[0]].deadline if key[0] else DEVICES_SECONDS)
        try:
            self._runner.begin({"check": key[0], "device": key[1], "facts": self._facts, "gpus": self._gpus})
        except OSError:  # no process can be forked: the deadline will say so
            return

    def _collect(self, key: Key, end: float, now: float) -> None:
        """Take the answer of what runs, or end it after its deadline."""
        answer = self._runner.poll(max(0.0, min(end, max(now, self._beat)) - now))
        if answer is None and self._context.monotonic() < end:
            return
        self._running = None
        if answer is None:
            self._runner.kill()
        if key == DEVICES:
            if answer is None or "died" in answer:
                self._schedule(DEVICES, DEVICES_SECONDS)
            else:
                self._begin_with(answer["devices"])
            return
        check = self.checks[key[0]]
        if answer is not None and "missing" in answer:
            self._skipped[check.name] = str(answer["missing"])
            self._urgent = self._results.pop(key, None) is not None or self._urgent
            self._schedule(key, max(check.interval, MISSING_SECONDS))
            return
        self._skipped.pop(check.name, None)
        if answer is None or "died" in answer:
            why = f"did not end within {check.deadline:g} s" if answer is None else answer["died"]
            answer = {"result": examined(check, Finding(WARN, message=why), self._context)}
        self._put(key, answer["result"])
        bad = self._results[key]["state"] in (WARN, EVICT)
        again = min(check.interval, max(AGAIN_SECONDS, AGAIN_SHARE * check.interval))
        self._schedule(key, again if bad else check.interval)

    def _schedule(self, key: Key, after: float) -> None:
        self._due[key] = self._context.monotonic() + after * (1 + JITTER * (2 * self._chance() - 1))

    def _begin_with(self, devices: list[dict[str, str]]) -> None:
        """Begin with these devices: the first runs are spread, those of cheap checks over one interval."""
        self.devices = devices
        now = self._context.monotonic()
        for name, check in self.checks.items():
            for device in devices:
                if (device["name"] != CPU) == (check.kind == GPU):
                    after = min(check.interval, SPREAD_SECONDS) * self._chance()
                    self._due[name, device["name"]] = now + after
        self._urgent = True

    def _put(self, key: Key, result: dict[str, Any]) -> None:
        """Keep a result, or the last one where the check could not tell; another state is told at once."""
        old = self._results.get(key)
        if old is not None and result["state"] == UNKNOWN:
            result = {**old, "at": result["at"]}
        self._results[key] = result
        self._urgent = self._urgent or old is None or old["state"] != result["state"]

    # Telling

    def _tell(self) -> None:
        """Report, and take the answer."""
        begin, wall = self._context.monotonic(), self._context.wall()
        self._urgent = False
        self._beat = begin + BEAT_SECONDS
        report = {
            "node": self.node,
            "boot": self.boot,
            "interval": BEAT_SECONDS,
            "address": self.address,
            "devices": [{**device, "checks": self._results_of(device["name"])} for device in self.devices],
            "skipped": self._skipped,
        }
        try:
            answer = self._post(report)
        except (OSError, ValueError):
            return  # the controller is away: the newest results are told when it is back
        took = self._context.monotonic() - begin
        self._clocks = [*self._clocks, (took / 2, wall + took / 2 - float(answer["now"]))][-CLOCKS:]
        doubt, skew = min(self._clocks)
        self._facts = {"peers": answer.get("peers") or {}, "clock": {"skew": skew, "doubt": doubt}}

    def _results_of(self, device: str) -> list[dict[str, Any]]:
        return [result for key, result in self._results.items() if key[1] == device]
