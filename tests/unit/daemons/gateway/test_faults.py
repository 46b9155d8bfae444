"""A kill of the node that a person's job trains on: of hers alone, one at a time, and who would be hit."""

from __future__ import annotations

import asyncio

import pytest

from lab.cluster.allocation import Holding
from lab.daemons.gateway.access import Access
from lab.daemons.gateway.faults import Breaker, aim, breaker
from lab.daemons.gateway.ray_api import RayJobs
from lab.daemons.gateway.routes import Routes
from lab.errors import RefusedError
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


def test_who_may_kill_under_whose_job(school: Class) -> None:
    killed, killing = [], Killing()
    held = [holding("ann-digits", "ray-worker-0")]

    def start(node: str, job: str) -> Killing:
        killed.append((node, job))
        return killing

    breaks = Breaker(lambda: tuple(held), start)  # type: ignore[arg-type]
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
    assert killed == [("ray-worker-0", "ann-digits")] * 2


def test_only_a_lab_of_processes_is_broken_from_here(school: Class) -> None:
    school.submit("ann", "digits", 900)
    school.world.run(5)
    reply = school.ask("ann", "POST", FAULT)
    assert (reply.status, "labs of processes only" in reply.text) == (409, True)
    assert breaker({"RAYLAB_NAME": "raylab"}, ("http://127.0.0.1:8265", "token")) is None
    assert breaker({"RAYLAB_NAME": "raylab", "RAYLAB_HOME": "/home"}, ("", "")) is not None


def test_of_two_kills_at_the_same_time_one_is_refused() -> None:
    killed = []

    def start(node: str, job: str) -> Killing:
        killed.append(node)
        return Killing()

    breaks = Breaker(lambda: (holding("ann-digits", "ray-worker-0"),), start)  # type: ignore[arg-type]

    async def both() -> list[str | BaseException]:
        kills = (breaks.kill("ann-digits", lambda job: True) for _ in range(2))
        return await asyncio.gather(*kills, return_exceptions=True)

    answers = asyncio.run(both())
    assert killed == ["ray-worker-0"]
    assert sorted(type(answer).__name__ for answer in answers) == ["RefusedError", "str"]
