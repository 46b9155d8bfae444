"""A kill of the node that a person's job trains on: of hers alone, one at a time, and who would be hit."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.api.people import FaultOrder
from lab.cluster.allocation import Holding
from lab.daemons.gateway.access import Access
from lab.daemons.gateway.faults import PRINTED, SAID, Breaker, aim, arguments, breaker
from lab.daemons.gateway.ray_api import RayJobs
from lab.daemons.gateway.routes import Routes
from lab.errors import RefusedError, UsageError
from lab.runtime.active_faults import FOLDER, LEFT_DOWN, ActiveFault, ActiveFaults
from tests.unit.daemons.gateway.classes import Class

FAULT = "/workloads/ann/ann-digits/fault"


def holding(job: str, node: str) -> Holding:
    return Holding(job, node, {"CPU": 1.0}, "rank 0")


class Killing:
    """A labctl that kills a node, and has not ended yet."""

    def __init__(self) -> None:
        self.ended: int | None = None

    def poll(self) -> int | None:
        return self.ended


@pytest.mark.parametrize(
    ("held", "node"),
    [
        ("a@ray-worker-0", "ray-worker-0"),
        ("a@ray-worker-1 a@ray-worker-0", "ray-worker-0"),
        ("a@ray-worker-0 mine@ray-worker-0 a@ray-worker-1", "ray-worker-1"),
        ("a@ray-worker-0 mine@ray-worker-0", "ray-worker-0"),
        ("a@ray-worker-0 other@ray-worker-0 a@ray-worker-1 mine@ray-worker-1", "ray-worker-1"),
        ("a@ray-worker-0 other@ray-worker-0", "ray-worker-0 would be lost to other, too"),
        ("a@ray-head other@ray-worker-0", "a holds nothing of a node"),
        ("", "a holds nothing of a node"),
    ],
)
def test_the_node_that_runs_nobody_elses_job_is_killed(held: str, node: str) -> None:
    parts = [holding(*one.split("@")) for one in held.split()]
    if " " in node:
        with pytest.raises(RefusedError, match=node):
            aim("a", parts, lambda job: job != "other")
    else:
        assert aim("a", parts, lambda job: job != "other") == node


def test_a_teacher_kills_where_the_fewest_are_hit() -> None:
    held = [holding(job, "ray-worker-0") for job in "abc"] + [holding(job, "ray-worker-1") for job in "ab"]
    assert aim("a", held, lambda job: True) == "ray-worker-1"


def test_who_may_kill_under_whose_job(school: Class, tmp_path: Path) -> None:
    killed, killing = list[tuple[str, str, bool]](), Killing()
    held = [holding("ann-digits", "ray-worker-0")]

    def start(argv: Sequence[str]) -> Killing:
        killed.append((argv[1], argv[3], "--spare-others" in argv))
        return killing

    breaks = Breaker(lambda: tuple(held), start, tmp_path)
    access = Access(school.registry, school.queue, school.ray, breaks)
    school.routes = Routes(access, RayJobs(access))
    assert school.ask("ann", "POST", FAULT).status == 404
    school.submit("ann", "digits", 900)
    reply = school.ask("ann", "POST", FAULT)
    assert (reply.status, "does not run" in reply.text) == (409, True)
    school.world.run(5)
    for name in ("ben", "eva"):
        reply = school.ask(name, "POST", FAULT)
        assert (reply.status, "this job is ann's" in reply.text) == (403, True)
    assert killed == []
    assert school.ok("ann", "POST", FAULT) == {"killed": "ray-worker-0"}
    reply = school.ask("tom", "POST", FAULT)
    assert (reply.status, "a fault is under way" in reply.text) == (409, True)
    killing.ended = 0
    school.submit("ben", "food", 900)
    school.world.run(5)
    held.append(holding("ben-food", "ray-worker-0"))
    reply = school.ask("ann", "POST", FAULT)
    assert (reply.status, "lost to ben-food, too" in reply.text) == (409, True)
    assert school.ok("tom", "POST", FAULT) == {"killed": "ray-worker-0"}
    assert killed == [("ray-worker-0", "ann-digits", True), ("ray-worker-0", "ann-digits", False)]


def test_only_a_lab_of_processes_is_broken_from_here(school: Class) -> None:
    school.submit("ann", "digits", 900)
    school.world.run(5)
    reply = school.ask("ann", "POST", FAULT)
    assert (reply.status, "its lab runs in containers" in reply.text) == (409, True)
    assert breaker({"RAYLAB_NAME": "raylab"}, ("http://127.0.0.1:8265", "token")) is None
    assert breaker({"RAYLAB_NAME": "raylab", "RAYLAB_HOME": "/home"}, ("", "")) is not None


def test_of_two_kills_at_the_same_time_one_is_refused(tmp_path: Path) -> None:
    killed = []

    def start(argv: Sequence[str]) -> Killing:
        killed.append(argv[1])
        return Killing()

    breaks = Breaker(lambda: (holding("ann-digits", "ray-worker-0"),), start, tmp_path)

    async def both() -> list[str | BaseException]:
        kills = (breaks.kill("ann-digits", lambda job: True, FaultOrder()) for _ in range(2))
        return await asyncio.gather(*kills, return_exceptions=True)

    answers = asyncio.run(both())
    assert killed == ["ray-worker-0"]
    assert sorted(type(answer).__name__ for answer in answers) == ["RefusedError", "str"]


def test_of_two_starts_at_the_same_time_one_is_refused(school: Class, tmp_path: Path) -> None:
    asked, both = list[tuple[str, ...]](), threading.Event()

    def start(argv: Sequence[str]) -> Killing:
        asked.append(tuple(argv))
        if len(asked) < 2:
            both.wait(0.2)  # a second one has this long to come in between
        both.set()
        return Killing()

    access = Access(school.registry, school.queue, school.ray, Breaker(tuple, start, tmp_path))
    school.routes = Routes(access, RayJobs(access))
    school.submit("ann", "digits", 900)
    school.world.run(5)
    memo = {LEFT_DOWN: True}
    ActiveFaults(tmp_path).keep(ActiveFault("stop", "ray-worker-0", "ann-digits", 5.0, 0, 0.0, memo=memo))

    async def twice() -> list[int]:
        order = school.asked("ann", "POST", "/nodes/ray-worker-0/start")
        replies = await asyncio.gather(*(school.routes.answer(order) for _ in range(2)))
        return sorted(reply.status for reply in replies)

    assert (asyncio.run(twice()), asked) == ([200, 409], [("restart", "ray-worker-0")])


def test_a_person_says_which_fault_where_and_when() -> None:
    order = FaultOrder("stop", leave_down=True, after_epoch=3, duration=4.5)
    assert arguments(order) == ("--fault=stop", "--after-epoch=3", "--for=4.5s", "--leave-down")
    assert arguments(FaultOrder()) == ("--fault=kill",)
    for kind in ("s3-down", "head-kill", "disk-full", "--help"):
        with pytest.raises(UsageError, match="in a class no fault"):
            arguments(FaultOrder(kind))


def test_a_named_node_has_to_be_one_of_the_jobs_and_nobody_elses() -> None:
    held = [holding("a", "ray-worker-0"), holding("a", "ray-worker-1"), holding("b", "ray-worker-1")]
    assert aim("a", held, lambda job: True, "ray-worker-1") == "ray-worker-1"
    with pytest.raises(RefusedError, match="would be lost to b"):
        aim("a", held, lambda job: False, "ray-worker-1")
    with pytest.raises(RefusedError, match="b runs nothing on ray-worker-0"):
        aim("b", held, lambda job: True, "ray-worker-0")


def asking(school: Class, folder: Path) -> tuple[list[tuple[str, ...]], Killing]:
    """Let labctl be asked for, with a job of ann's that trains."""
    asked, running = list[tuple[str, ...]](), Killing()

    def start(argv: Sequence[str]) -> Killing:
        asked.append(tuple(argv))
        running.ended = None
        return running

    breaks = Breaker(lambda: (holding("ann-digits", "ray-worker-0"),), start, folder)
    access = Access(school.registry, school.queue, school.ray, breaks)
    school.routes = Routes(access, RayJobs(access))
    school.submit("ann", "digits", 900)
    school.world.run(5)
    return asked, running


def test_a_fault_is_followed_by_whoever_may_read_the_job(school: Class, tmp_path: Path) -> None:
    asked, running = asking(school, tmp_path)
    assert school.ask("ann", "GET", FAULT).status == 404
    order = json.dumps({"kind": "stop", "target": "ray-worker-0", "leave_down": True}).encode()
    assert school.ok("ann", "POST", FAULT, order) == {"killed": "ray-worker-0"}
    assert asked[-1][:2] == ("fault-inject", "ray-worker-0")
    assert asked[-1][-3:] == ("--fault=stop", "--leave-down", "--spare-others")
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / SAID).write_text("+0.0 s fault\n")
    (tmp_path / FOLDER / PRINTED).write_text("{}")
    begun: dict[str, Any] = {"killed": "ray-worker-0", "lines": ["+0.0 s fault"], "code": None, "printed": ""}
    assert school.ok("ann", "GET", FAULT) == begun
    running.ended = 0
    assert school.ok("eva", "GET", FAULT) == {**begun, "code": 0, "printed": "{}"}
    assert school.ask("ben", "GET", FAULT).status == 403
    odd: tuple[dict[str, object], ...] = ({"duration": "long"}, {"duration": 3601}, {"after_seconds": 1e9})
    for wrong in ({"kind": "head-kill"}, {"kind": 3}, {"more": 1}, *odd):
        assert school.ask("ann", "POST", FAULT, json.dumps(wrong).encode()).status == 400


def test_a_node_that_was_left_down_is_started_by_whom_the_job_belongs_to(
    school: Class, tmp_path: Path
) -> None:
    asked, running = asking(school, tmp_path)
    page = "/nodes/ray-worker-0/start"
    reply = school.ask("ann", "POST", page)
    assert (reply.status, "was not left down by a fault" in reply.text) == (409, True)
    memo = {LEFT_DOWN: True}
    ActiveFaults(tmp_path).keep(ActiveFault("stop", "ray-worker-0", "ann-digits", 5.0, 0, 0.0, memo=memo))
    reply = school.ask("ben", "POST", page)
    assert (reply.status, "a job that is ann's" in reply.text) == (403, True)
    assert asked == []
    assert school.ok("ann", "POST", page) == {"starts": "ray-worker-0"}
    assert asked == [("restart", "ray-worker-0")]
    assert school.ask("tom", "POST", page).status == 409, "it is being started"
    running.ended = 0
    assert school.ok("tom", "POST", page) == {"starts": "ray-worker-0"}
