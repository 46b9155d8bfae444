"""The agent of one node: one process makes the checks in a loop, and another, which watches it, reports.

Every BEAT_SECONDS it reports to the service `queue`, which shows that the node lives; a new state is told at
once. The answer brings the time and the other nodes. A check that does not end before its deadline is killed,
with whatever it has started, and that is a finding too.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from raylab_health.checks import CHECKS, Check, Finding
from raylab_health.node import CPU, EVICT, WARN, Node
from raylab_node import companion

BEAT_SECONDS = 5.0
"""Time between two reports; after three of them a node without any is UNKNOWN."""

FIRST_SECONDS = 3.0
"""Pause before the first check: a node that starts has better things to do."""

MINUTE = 60.0
"""The first runs of dear checks are spread over it; what is bad is looked at again after it at the latest."""

Devices = Sequence[Mapping[str, str]]
"""Name and model of each."""
Key = tuple[Check, str]
"""What is made, and the name of its device."""


def checking(
    node: Node,
    gpus: int,
    known: Devices = (),
    late: Collection[Key] = (),
    *,
    checks: Sequence[Check] = CHECKS,
    chance: Callable[[], float] = random.random,
) -> Iterator[Any]:
    """Make the checks for ever: yields the devices, then in turn a check with its device, and its finding.

    `known` are the devices where a checker before this one has listed them, and `late` what it hung in.
    """
    if not known:
        node.sleep(FIRST_SECONDS)
    devices = known or node.devices(gpus)
    yield devices
    due = {
        (check, device["name"]): min(check.interval, MINUTE) * chance() + node.monotonic()
        for check in checks
        for device in devices
        if check.of_gpus == (device["name"] != CPU)
    }
    due |= {key: node.monotonic() + MINUTE for key in late}
    while True:
        check, device = min(due, key=lambda key: due[key])
        node.sleep(max(0.0, due[check, device] - node.monotonic()))
        yield check, device
        finding = check.examine(node, device)
        yield finding
        pause = min(check.interval, MINUTE) if finding.state in (WARN, EVICT) else check.interval
        due[check, device] = node.monotonic() + pause


class Checker:
    """A process that makes the checks, and ends with whatever it has started."""

    def __init__(self, node: Node, gpus: int, known: Devices, late: Collection[Key]) -> None:
        fork, parent = multiprocessing.get_context("fork"), os.getpid()
        self.line, theirs = fork.Pipe()

        def serve() -> None:
            self.line.close()
            os.setpgid(0, 0)
            companion.settle(parent, "raylab-health", 0)
            with contextlib.suppress(EOFError, OSError):  # the agent has ended
                for message in checking(node, gpus, known, late):
                    theirs.send(message)
                    while theirs.poll():
                        node.heard = theirs.recv()

        self._process = fork.Process(target=serve, daemon=True)
        self._process.start()
        theirs.close()

    def kill(self) -> None:
        if self._process.pid:
            with contextlib.suppress(OSError):  # it has no group of its own yet
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self.line.close()


class Agent:
    """Watches a checker and tells what it finds. `step` is called again and again."""

    def __init__(
        self,
        name: str,
        start: Callable[[Devices, Collection[Key]], Checker],
        post: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        *,
        address: str = "",
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`name` is the node's, `address` that at which the other nodes see that it can be reached.

        `post` sends a report and returns the answer. It raises OSError, ValueError.
        """
        self._report: dict[str, Any] = {"node": name, "boot": os.urandom(8).hex(), "address": address}
        self._start, self._post, self._monotonic, self._wall = start, post, monotonic, wall
        self._checker: Checker | None = None
        self._running: Key | None = None
        self._end = self._beat = math.inf
        """When what runs is ended, and when the next report is due: the first one has the devices."""
        self._devices: Devices = ()
        self._late: set[Key] = set()
        self._results: dict[tuple[str, str], dict[str, Any]] = {}

    def step(self) -> None:
        """Hear of what the checker does, for at most a second, and report when that is due."""
        now = self._monotonic()
        if self._checker is None:
            self._checker = self._start(self._devices, self._late)
            self._end = now + FIRST_SECONDS + MINUTE
        line = self._checker.line
        try:
            if line.poll(max(0.0, min(1.0, self._beat - now, self._end - now))):
                self._hear(line.recv())
            elif self._monotonic() >= self._end:
                self._lose("did not end in time")
        except (EOFError, OSError):
            self._lose("its process has died")
        if self._monotonic() >= self._beat:
            self._tell()

    def _hear(self, message: Any) -> None:
        """Take what the checker says: see `checking`."""
        if isinstance(message, Finding):
            self._put(message)
        elif isinstance(message, tuple):
            self._running, self._end = message, self._monotonic() + message[0].deadline
        else:
            self._devices, self._beat, self._end = message, self._monotonic(), math.inf

    def _lose(self, why: str) -> None:
        """End the checker; the next step starts another."""
        if self._checker is not None:
            self._checker.kill()
            self._checker = None
        if self._running is not None:
            self._late.add(self._running)
        self._put(Finding(WARN, why))

    def _put(self, finding: Finding) -> None:
        """Keep a result; another state is told at once."""
        if self._running is not None:
            key = (self._running[0].name, self._running[1])
            if self._results.get(key, {}).get("state") != finding.state:
                self._beat = self._monotonic()
            message, at = finding.message[:300], round(self._wall(), 3)  # much longer ones are refused
            self._results[key] = {**vars(finding), "name": key[0], "message": message, "at": at}
        self._running, self._end = None, math.inf

    def _tell(self) -> None:
        """Report, and hand on the answer."""
        begin, wall = self._monotonic(), self._wall()
        self._beat = begin + BEAT_SECONDS
        results = self._results.items()
        devices = [
            {**device, "checks": [result for (_, name), result in results if name == device["name"]]}
            for device in self._devices
        ]
        with contextlib.suppress(OSError, ValueError):  # the controller is away: it hears the newest later
            answer = self._post({**self._report, "devices": devices})
            half = (self._monotonic() - begin) / 2
            heard = {"peers": answer["peers"], "skew": wall + half - answer["now"], "doubt": half}
            if self._checker is not None:
                self._checker.line.send(heard)
