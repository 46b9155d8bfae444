"""Loops of a daemon: what ends none of them, how long they wait, and what their page says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from lab.errors import StateError
from lab.host.loops import FAILING_SECONDS, LONGEST_SECONDS, SILENT_SECONDS, Loop, Loops
from lab.host.serving import answer
from tests.fakes import FakeClock

FULL = StateError("the disk is full")


class Work:
    """A loop whose steps do what a test says: raise, or return the pause until the next one."""

    def __init__(self, *steps: float | BaseException) -> None:
        self.clock, self.said = FakeClock(), list[str]()
        self.steps = list(steps)
        self.loop = Loop("work", self.step, clock=self.clock, say=self.said.append)

    def step(self) -> float:
        todo = self.steps.pop(0)
        if isinstance(todo, BaseException):
            raise todo
        return todo

    def pauses(self) -> list[float]:
        return [self.loop.once() for _ in range(len(self.steps))]


@pytest.mark.parametrize("error", [FULL, KeyError("ns/job"), MemoryError(), SystemExit(1)])
def test_a_step_that_raises_ends_no_loop(error: BaseException) -> None:
    work = Work(error, 0.25)
    assert work.pauses() == [1.0, 0.25]
    assert work.loop.state.error == ""


def test_what_fails_again_and_again_is_tried_ever_more_seldom_and_said_once() -> None:
    work = Work(*[FULL] * 20, 0.25, FULL)
    assert work.pauses() == [1.0, 2.0, 4.0, 8.0, *[LONGEST_SECONDS] * 16, 0.25, 1.0]
    assert work.said == [
        "work: the disk is full",
        "work: works again after 20 failed steps",
        "work: the disk is full",
    ]


def test_a_bug_is_said_with_its_place() -> None:
    work = Work(KeyError("ns/job"))
    work.pauses()
    assert work.said[0].startswith("work: KeyError('ns/job')\nTraceback")
    assert "raise todo" in work.said[0]


@pytest.mark.parametrize(
    ("steps", "seconds", "problem"),
    [
        ((0.25,), SILENT_SECONDS - 1, ""),
        ((0.25,), SILENT_SECONDS + 1, "work has completed no step for 121 s: a step has not returned"),
        ((0.25, FULL), FAILING_SECONDS - 1, ""),
        ((0.25, FULL), FAILING_SECONDS + 1, "work has completed no step for 21 s: the disk is full"),
        ((FULL, 0.25), FAILING_SECONDS + 1, ""),
    ],
)
def test_a_loop_is_stuck_when_its_last_completed_step_is_too_old(
    steps: Sequence[float | BaseException], seconds: float, problem: str
) -> None:
    work = Work(*steps)
    work.pauses()
    work.clock.sleep(seconds)
    assert work.loop.state.problem == problem


def test_a_wake_up_ends_a_pause_and_the_end_ends_a_back_off() -> None:
    wake, made = threading.Event(), threading.Semaphore(0)
    pauses: list[float | BaseException] = [3600.0, FULL]

    def step() -> float:
        todo = pauses.pop(0)
        made.release()
        if isinstance(todo, BaseException):
            raise todo
        return todo

    loop = Loop("work", step, wake=wake, say=lambda _: None)
    loop.start()
    assert made.acquire(timeout=30)
    wake.set()
    assert made.acquire(timeout=30)
    loop.end(30)
    assert not pauses
    assert "work" not in [thread.name for thread in threading.enumerate()]


# The page


def page(
    *work: Work, path: str = "/healthz", method: str = "GET", about: Callable[[], Mapping[str, Any]] = dict
) -> tuple[str, Any]:
    said: list[str] = []

    def rest(environ: Mapping[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        return answer(start_response, "418 I'm a teapot", b'"the rest"', "application/json")

    app = Loops(item.loop for item in work).reporting(rest, about)
    body = app({"PATH_INFO": path, "REQUEST_METHOD": method}, lambda status, _: said.append(status))
    return said[0], json.loads(b"".join(body))


def test_the_page_tells_the_age_of_every_loop() -> None:
    one, other = Work(1.0), Work(1.0)
    one.clock.sleep(12.25)
    other.clock.sleep(3)
    assert page(one, other, about=lambda: {"away": {"ray": "it is"}, "detail": "kept aside"}) == (
        "200 OK",
        {
            "status": "ok",
            "detail": "kept aside",
            "away": {"ray": "it is"},
            "loops": [{"name": "work", "age": 12.2, "error": ""}, {"name": "work", "age": 3.0, "error": ""}],
        },
    )


def test_one_stuck_loop_makes_the_daemon_unhealthy() -> None:
    well, stuck = Work(1.0), Work(FULL)
    stuck.pauses()
    stuck.clock.sleep(60)
    status, answer = page(well, stuck, about=lambda: {"detail": "kept aside"})
    assert (status, answer["status"]) == ("503 Service Unavailable", "stuck")
    assert answer["detail"] == "work has completed no step for 60 s: the disk is full"
    assert [loop["error"] for loop in answer["loops"]] == ["", "the disk is full"]


@pytest.mark.parametrize(("path", "method"), [("/healthz/more", "GET"), ("/", "GET"), ("/healthz", "POST")])
def test_every_other_page_is_the_daemons(path: str, method: str) -> None:
    assert page(Work(1.0), path=path, method=method) == ("418 I'm a teapot", "the rest")
