"""The agent: what runs when, and what is told when; on a clock of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from lab.api.base import parse, plain
from lab.api.health import AgentReport, Heard
from raylab_health.agent import (
    AGAIN_SECONDS,
    BEAT_SECONDS,
    DEVICES_SECONDS,
    FIRST_SECONDS,
    MISSING_SECONDS,
    Agent,
)
from raylab_health.examine import examine
from raylab_health.model import (
    CPU,
    EVICT,
    GPU,
    NODE,
    PASS,
    UNKNOWN,
    WARN,
    Check,
    Context,
    Finding,
    NotHereError,
)
from raylab_health.runner import Runner
from tests.unit.probe.raylab_health.fakes import FakeNode

CARD = "gpu-0"


class Bench:
    """An agent with checks that say what `says` holds, a runner without a process, and a controller."""

    def __init__(self, root: Path) -> None:
        self.node = FakeNode(root)
        self.says: dict[str, str] = {}
        """Check -> state; `missing`, `hangs` and `dies` are others. The devices are asked for as ``."""
        self.ran: list[tuple[float, str, str]] = []
        self.reports: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.answer: dict[str, Any] = {}
        self.away = False
        self.killed = 0
        self._request: Mapping[str, Any] = {}
        self.checks = {
            check.name: check
            for check in (
                Check("quick", GPU, 5.0, self._run),
                Check("dear", NODE, 600.0, self._run),
                Check("rare", GPU, 100_000.0, self._run),
                Check("slow", NODE, 600.0, self._run),
            )
        }
        self._current = ""
        self.agent = Agent(
            "ray-worker-0",
            "boot",
            tuple(self.checks.values()),
            self.node,
            cast(Runner, self),
            self._post,
            gpus=1,
            address="ray-worker-0:7",
            chance=lambda: 0.5,
        )

    def _run(self, context: Context, device: str) -> Finding:
        state = self.says.get(self._current, PASS)
        if state == "missing":
            raise NotHereError("there is none")
        return Finding(state)

    # The runner

    def begin(self, request: Mapping[str, Any]) -> None:
        self._request = request
        if request["check"]:
            self.ran.append((self.node.now, request["check"], request["device"]))

    def poll(self, seconds: float) -> dict[str, Any] | None:
        name = self._current = self._request["check"]
        if self.says.get(name) == "hangs":
            self.node.now += seconds
            return None
        if self.says.get(name) == "dies":
            return {"died": "killed"}
        if not name:
            return {"devices": [{"name": CARD, "model": "x"}, {"name": CPU, "model": "y"}]}
        try:
            return {"result": examine(self.checks[name], self._request["device"], self.node)}
        except NotHereError as error:
            return {"missing": str(error)}

    def kill(self) -> None:
        self.killed += 1

    # The controller

    def _post(self, report: Mapping[str, Any]) -> dict[str, Any]:
        if self.away:
            raise OSError("connection refused")
        parse(AgentReport, report, "the report")
        self.reports.append(dict(report))
        self.times.append(self.node.now)
        given, self.answer = self.answer, {}
        heard = parse(Heard, {"now": self.node.now, "peers": {}, **given}, "the answer")
        answer: dict[str, Any] = plain(heard)
        return answer

    def run(self, seconds: float) -> None:
        end = self.node.now + seconds
        while self.node.now < end:
            self.agent.step()

    def results(self, check: str) -> list[str]:
        """The states of a check that were told, without those that were told again."""
        said = [
            (result["at"], str(result["state"]))
            for report in self.reports
            for device in report["devices"]
            for result in device["checks"]
            if result["name"] == check
        ]
        return [state for _, state in dict.fromkeys(said)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_node_that_starts_is_left_alone_for_a_moment(bench: Bench) -> None:
    bench.run(FIRST_SECONDS - 0.1)
    assert (bench.reports, bench.ran) == ([], [])
    bench.run(1.0)
    assert bench.reports[0]["devices"] == [
        {"name": CARD, "model": "x", "checks": []},
        {"name": CPU, "model": "y", "checks": []},
    ]


def test_the_devices_are_waited_for_at_rest(bench: Bench) -> None:
    bench.says[""] = "hangs"
    for _ in range(6):  # the pause before it, in steps of a second
        bench.agent.step()
    assert (bench.killed, bench.reports) == (1, [])


def test_a_node_that_does_not_tell_its_devices_at_first_is_not_one_without_gpus(bench: Bench) -> None:
    bench.says[""] = "dies"
    bench.run(FIRST_SECONDS + 1)
    assert bench.reports == []
    del bench.says[""]
    bench.run(2 * DEVICES_SECONDS)
    assert [device["name"] for device in bench.reports[0]["devices"]] == [CARD, CPU]


def test_each_check_runs_on_its_devices_by_its_interval_and_dear_ones_are_spread(bench: Bench) -> None:
    bench.run(700)
    ran = {name: [at for at, check, _ in bench.ran if check == name] for name in bench.checks}
    assert 130 <= len(ran["quick"]) <= 142
    assert [round(at - 1003) for at in ran["dear"]] == [30, 630]
    assert len(ran["rare"]) == 1
    assert {(name, device) for _, name, device in bench.ran} >= {("quick", CARD), ("dear", CPU)}


def test_reports_come_with_every_beat_although_nothing_is_new(bench: Bench) -> None:
    bench.run(120)
    steps = [b - a for a, b in zip(bench.times[5:], bench.times[6:], strict=False)]
    assert max(steps) <= BEAT_SECONDS + 0.1
    assert len(bench.reports) < 40


def test_a_new_state_is_told_at_once(bench: Bench) -> None:
    bench.run(62)
    bench.says["quick"] = EVICT
    begin = bench.node.now
    bench.run(6)
    at = next(
        at
        for at, report in zip(bench.times, bench.reports, strict=True)
        if any(result["state"] == EVICT for result in report["devices"][0]["checks"])
    )
    ran = next(at for at, name, _ in bench.ran if name == "quick" and at >= begin)
    assert at - ran < 0.1


def test_what_did_not_pass_runs_again_soon(bench: Bench) -> None:
    bench.says["dear"] = WARN
    bench.run(36)
    assert bench.results("dear") == [WARN]
    bench.says["dear"] = PASS
    bench.run(AGAIN_SECONDS + 1)
    assert bench.results("dear") == [WARN, PASS]


def test_a_check_that_hangs_is_killed_and_the_node_is_heard_meanwhile(bench: Bench) -> None:
    bench.says["slow"] = "hangs"
    bench.run(62)
    assert bench.killed == 1
    assert bench.results("slow") == [WARN]
    assert max(b - a for a, b in zip(bench.times, bench.times[1:], strict=False)) <= BEAT_SECONDS + 0.1


def test_a_check_that_hangs_has_no_value_so_that_a_broken_gpu_stays_so(bench: Bench) -> None:
    bench.says["quick"] = EVICT
    bench.run(10)
    bench.says["quick"] = "hangs"
    bench.run(30)
    assert bench.killed == 1
    checks = bench.reports[-1]["devices"][0]["checks"]
    assert [(r["state"], r["value"]) for r in checks if r["name"] == "quick"] == [(WARN, None)]


def test_a_check_that_could_not_tell_leaves_what_it_found(bench: Bench) -> None:
    bench.says["quick"] = EVICT
    bench.run(10)
    bench.says["quick"] = UNKNOWN
    bench.run(30)
    assert set(bench.results("quick")) == {EVICT}


def test_a_check_that_cannot_tell_runs_no_more_often(bench: Bench) -> None:
    bench.says["dear"] = UNKNOWN
    bench.run(600)
    assert [name for _, name, _ in bench.ran].count("dear") == 1


def test_a_runner_that_dies_is_no_end_of_the_agent(bench: Bench) -> None:
    bench.says["slow"] = "dies"
    bench.run(62)
    assert set(bench.results("slow")) == {WARN}
    assert bench.results("quick")[-1] == PASS


def test_a_check_that_cannot_be_made_says_why_and_is_tried_again_now_and_then(bench: Bench) -> None:
    bench.says["quick"] = "missing"
    bench.run(62)
    assert bench.reports[-1]["skipped"] == {"quick": "there is none"}
    assert len([1 for _, name, _ in bench.ran if name == "quick"]) == 1
    bench.says["quick"] = PASS
    bench.run(MISSING_SECONDS + 10)
    assert bench.reports[-1]["skipped"] == {}
    bench.says["quick"] = "missing"
    bench.run(10)
    left = [result["name"] for result in bench.reports[-1]["devices"][0]["checks"]]
    assert left == ["rare"], "what it found once says nothing any more"


def test_the_newest_results_are_told_when_the_controller_is_back(bench: Bench) -> None:
    bench.run(62)
    bench.away = True
    bench.says["quick"] = EVICT
    bench.run(30)
    count = len(bench.reports)
    bench.away = False
    bench.run(BEAT_SECONDS + 1)
    assert EVICT in [result["state"] for result in bench.reports[count]["devices"][0]["checks"]]


def test_the_clocks_difference_is_that_of_the_quickest_answer(bench: Bench) -> None:
    bench.run(10)
    bench.answer = {"now": bench.node.now - 100, "peers": {"b": "b:1"}}
    bench.run(BEAT_SECONDS)
    facts = bench.agent._facts
    assert (facts["clock"]["doubt"], round(facts["clock"]["skew"])) == (0.0, 0)
