"""The clock and the two ways to poll."""

from __future__ import annotations

import pytest

from lab.errors import WaitTimeoutError
from lab.host.clock import MONOTONIC, WALL, poll, settle
from tests.fakes.host import FakeClock


def test_poll_returns_the_first_thing_that_is_not_none() -> None:
    clock = FakeClock(0)
    answers = iter([None, None, 0])
    assert poll(lambda: next(answers), timeout=5, waited_for="an answer", clock=clock, every=1) == 0
    assert clock() == 2


def test_poll_raises_with_what_it_waited_for_the_state_and_the_hint() -> None:
    clock = FakeClock(0)
    with pytest.raises(WaitTimeoutError) as caught:
        poll(
            lambda: None,
            timeout=3,
            waited_for="Ray answers",
            clock=clock,
            state=lambda: "refused",
            hint="look",
        )
    assert caught.value.message == "Ray answers: not within 3 s: refused"
    assert caught.value.hint == "look"
    assert clock() == 3


def test_the_last_look_comes_at_the_deadline_and_not_later() -> None:
    clock = FakeClock(0)
    at: list[float] = []

    def look() -> float:
        at.append(clock())
        return clock()

    assert settle(look, lambda _: False, timeout=2.5, clock=clock, every=1) == 2.5
    assert at == [0, 1, 2, 2.5]


def test_without_time_there_is_one_look() -> None:
    looks: list[int] = []
    settle(lambda: looks.append(1), lambda _: False, timeout=0, clock=FakeClock(0))
    assert looks == [1]


def test_the_machines_clocks_go_on() -> None:
    assert MONOTONIC() <= MONOTONIC()
    assert WALL() > 1_700_000_000
