"""The two halves of an agent, on a clock of their own: what is made when, and what is told when."""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from lab.api.base import parse, plain
from lab.api.health import AgentReport, Heard
from raylab_health.checks import Check, Finding
from raylab_health.facts import Facts
from raylab_health.loop import BEAT_SECONDS, FIRST_SECONDS, MINUTE, Agent, Checker, Devices, Key, checking
from raylab_health.node import CPU, EVICT, PASS, UNKNOWN, WARN, Node
from tests.ext.health.raylab_health.fakes import FakeNode

CARD = "gpu-0"
DEVICES = [{"name": CARD, "model": "x"}, {"name": CPU, "model": "y"}]


class Bench:
    """An agent and its checker in one process, with checks that say what `says` holds, and a controller."""

    def __init__(self, root: Path) -> None:
        self.node = FakeNode(root)
        self.says: dict[str, str] = {}
        """Check, or `devices` -> state; `hangs` and `dies` are others."""
        self.ran: list[tuple[float, str]] = []
        self.reports: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.listed = self.killed = 0
        self.away = False
        self.late = 0.0
        """Seconds by which the controller's clock is behind."""
        rows = (
            ("quick", True, 5.0),
            ("dear", False, 600.0),
            ("rare", True, 1e5),
            ("slow", False, 600.0),
        )
        self.checks = tuple(
            Check(name, self._take, partial(self._judge, name), interval, of_gpus=of_gpus)
            for name, of_gpus, interval in rows
        )
        self.line = self
        self._messages: Iterator[Any] = iter(())
        self._end = 0.0
        self._next: Any = None
        self.agent = Agent(
            "ray-worker-0",
            self._start,
            self._post,
            address="ray-worker-0:7",
            monotonic=lambda: self.now,
            wall=lambda: self.now,
        )
        self.now = 1000.0

    def _take(self, node: Node, device: str) -> Facts:
        return Facts()

    def _judge(self, name: str, _: Facts) -> Finding:
        self.ran.append((self.node.now, name))
        return Finding(self.says.get(name, PASS), value=0.0)

    # The checker, whose clock runs ahead until its next message is due

    def _start(self, known: Devices, late: Collection[Key]) -> Checker:
        self.node.now, self._next = self.now, None
        self.node.__dict__["devices"] = self._devices
        self._messages = checking(self.node, 1, known, late, checks=self.checks, chance=lambda: 0.5)
        return cast(Checker, self)

    def _devices(self, count: int) -> Devices:
        self.listed += 1
        return DEVICES

    def poll(self, seconds: float) -> bool:
        if self._next is None:
            self._next = next(self._messages)
            if isinstance(self._next, Finding) and self.says.get(self.ran[-1][1]) == "hangs":
                self.node.now = float("inf")
            if isinstance(self._next, list) and self.says.get("devices") == "hangs":
                self.node.now = float("inf")
        self.now = min(self.now + seconds, max(self.now, self.node.now))
        return self.node.now <= self.now

    def recv(self) -> Any:
        message, self._next = self._next, None
        if isinstance(message, Finding) and self.says.get(self.ran[-1][1]) == "dies":
            raise EOFError
        return message

    def send(self, heard: Mapping[str, Any]) -> None:
        self.node.heard = heard

    def kill(self) -> None:
        self.killed += 1

    # The controller

    def _post(self, report: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.away:
            raise OSError("connection refused")
        parse(AgentReport, report, "the report")
        self.reports.append(dict(report))
        self.times.append(self.now)
        answer: dict[str, Any] = plain(Heard(self.now - self.late, {"b": "b:1"}))
        return answer

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.agent.step()

    def states(self, check: str) -> list[str]:
        """The states of a check that were told, without those that were told again."""
        listed = [
            (result["at"], str(result["state"]))
            for report in self.reports
            for device in report["devices"]
            for result in device["checks"]
            if result["name"] == check
        ]
        return [state for _, state in dict.fromkeys(listed)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_node_that_starts_is_left_alone_for_a_moment(bench: Bench) -> None:
    bench.run(FIRST_SECONDS - 1.0)
    assert (bench.reports, bench.ran) == ([], [])
    bench.run(2.0)
    assert bench.reports[0]["devices"] == [{**device, "checks": []} for device in DEVICES]


def test_devices_that_are_not_listed_in_time_are_listed_anew(bench: Bench) -> None:
    bench.says["devices"] = "hangs"
    bench.run(FIRST_SECONDS + MINUTE + 1)
    assert (bench.killed, bench.reports) == (1, [])
    del bench.says["devices"]
    bench.run(FIRST_SECONDS + 2 * MINUTE)
    assert bench.reports != []


def test_each_check_is_made_by_its_interval_and_dear_ones_are_spread(bench: Bench) -> None:
    bench.run(700)
    ran = {check.name: [at for at, name in bench.ran if name == check.name] for check in bench.checks}
    assert 130 <= len(ran["quick"]) <= 142
    assert [round(at - 1003) for at in ran["dear"]] == [30, 630]
    assert len(ran["rare"]) == 1


def test_reports_come_with_every_beat_although_nothing_is_new(bench: Bench) -> None:
    bench.run(120)
    steps = [b - a for a, b in zip(bench.times[5:], bench.times[6:], strict=False)]
    assert max(steps) <= BEAT_SECONDS
    assert len(bench.reports) < 40


def test_a_new_state_is_told_at_once(bench: Bench) -> None:
    bench.run(62)
    bench.says["quick"] = EVICT
    bench.run(6)
    at = next(time for time, report in zip(bench.times, bench.reports, strict=True) if EVICT in str(report))
    assert at in [ran for ran, name in bench.ran if name == "quick"]


def test_what_did_not_pass_is_made_again_soon_and_what_could_not_tell_is_not(bench: Bench) -> None:
    bench.says |= {"dear": WARN, "slow": UNKNOWN}
    bench.run(36)
    bench.says["dear"] = PASS
    bench.run(MINUTE + 1)
    assert bench.states("dear") == [WARN, PASS]
    assert [name for _, name in bench.ran].count("slow") == 1


def test_a_check_that_hangs_is_a_finding_and_the_node_is_heard_meanwhile(bench: Bench) -> None:
    bench.says["slow"] = "hangs"
    bench.run(62)
    assert (bench.killed, bench.listed, bench.states("slow")) == (1, 1, [WARN])
    (result,) = [r for r in bench.reports[-1]["devices"][1]["checks"] if r["name"] == "slow"]
    assert (result["value"], result["message"]) == (None, "did not end in time")
    assert max(b - a for a, b in zip(bench.times, bench.times[1:], strict=False)) <= BEAT_SECONDS


def test_a_check_that_always_hangs_leaves_time_for_the_others(bench: Bench) -> None:
    bench.says["quick"] = "hangs"
    bench.run(200)
    assert set(bench.states("quick")) == {WARN}
    assert bench.killed >= 2
    assert {"dear", "slow", "rare"} <= {name for _, name in bench.ran}


def test_a_checker_that_dies_is_no_end_of_the_agent(bench: Bench) -> None:
    bench.says["slow"] = "dies"
    bench.run(62)
    assert set(bench.states("slow")) == {WARN}
    assert bench.states("quick")[-1] == PASS


def test_the_newest_results_are_told_when_the_controller_is_back(bench: Bench) -> None:
    bench.run(62)
    bench.away = True
    bench.says["quick"] = EVICT
    bench.run(30)
    count = len(bench.reports)
    bench.away = False
    bench.run(BEAT_SECONDS + 1)
    assert EVICT in str(bench.reports[count])


def test_the_checker_hears_the_time_and_the_other_nodes(bench: Bench) -> None:
    bench.late = 7.0
    bench.run(10)
    assert bench.node.heard == {"peers": {"b": "b:1"}, "skew": 7.0, "doubt": 0.0}


def test_a_checker_is_a_process_that_ends_with_what_it_has_started() -> None:
    checker = Checker(Node({"RAYLAB_GPU": "simulated"}), 1, DEVICES, ())
    try:
        assert checker.line.poll(10.0)
        assert checker.line.recv() == DEVICES
    finally:
        checker.kill()
    checker._process.join(10.0)
    assert checker._process.exitcode == -signal.SIGKILL
