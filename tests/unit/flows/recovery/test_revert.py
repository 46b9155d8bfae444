"""A revert is waited for whatever interrupts that: Ctrl-C or SIGTERM, once; the second one leaves it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from lab.errors import ServiceError
from lab.faults import Scene
from lab.faults.kinds.kill import Kill
from lab.flows.recovery.revert import Revert
from tests.fakes import FakeClock, FakeRuntime


class Slow(Kill):
    """A fault whose revert does what a test says, in the thread of the revert."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__()
        self._work = work

    def revert(self, scene: Scene) -> None:
        self._work()


@pytest.fixture(autouse=True)
def terminable() -> Iterator[None]:
    """SIGTERM as labctl handles it."""

    def leave(*_: object) -> None:
        raise KeyboardInterrupt("SIGTERM")

    before = signal.signal(signal.SIGTERM, leave)
    yield
    signal.signal(signal.SIGTERM, before)


def reverting(work: Callable[[], None]) -> Revert:
    return Revert(Slow(work), Scene(FakeRuntime("raylab"), "ray-worker-0"), FakeClock())


def interrupt(number: signal.Signals = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_arrives_when_the_revert_has_ended(number: signal.Signals) -> None:
    noticed = threading.Event()
    counts: list[int] = []

    def work() -> None:
        interrupt(number)
        assert noticed.wait(30)

    def on_interrupt(count: int) -> None:
        counts.append(count)
        noticed.set()

    revert = reverting(work)
    with pytest.raises(KeyboardInterrupt):
        revert.finish(on_interrupt)
    assert revert.done_at is not None
    assert revert.error is None
    assert counts == [1]


@pytest.mark.parametrize(
    ("earlier", "last"),
    [(0, signal.SIGINT), (0, signal.SIGTERM), pytest.param(1, signal.SIGINT, id="before the revert")],
)
def test_a_second_interrupt_ends_the_wait_and_is_told(earlier: int, last: signal.Signals) -> None:
    noticed, over = threading.Event(), threading.Event()
    counts: list[int] = []

    def work() -> None:
        if not earlier:
            interrupt()
        assert noticed.wait(30)
        interrupt(last)
        assert over.wait(30)

    def on_interrupt(count: int) -> None:
        counts.append(count)
        noticed.set()

    revert = reverting(work)
    with pytest.raises(KeyboardInterrupt):
        revert.finish(on_interrupt, interrupts=earlier)
    assert (counts, revert.done_at) == ([1, 2], None)
    over.set()


def test_an_interrupt_while_the_caller_goes_on_does_not_lose_the_revert() -> None:
    """An interrupted Thread.join makes CPython 3.9 to 3.12 believe that the thread has ended."""
    go = threading.Event()

    def work() -> None:
        interrupt()
        assert go.wait(30)

    def go_on() -> None:
        revert.begin()
        revert.wait(30.0)

    revert = reverting(work)
    with pytest.raises(KeyboardInterrupt):
        go_on()
    assert revert.begun
    assert not revert.ended
    counts: list[int] = []

    def on_interrupt(count: int) -> None:
        counts.append(count)
        go.set()

    revert.finish(on_interrupt, interrupts=1)
    assert revert.done_at is not None
    assert counts == [1], "who interrupted before hears what another interrupt would do"


def test_what_fails_after_a_second_interrupt_is_not_tried_again() -> None:
    noticed, over, tries = threading.Event(), threading.Event(), []

    def work() -> None:
        tries.append(1)
        interrupt()
        assert noticed.wait(30)
        interrupt()
        assert over.wait(30)
        raise ServiceError("the machine is too busy")

    revert = reverting(work)
    with pytest.raises(KeyboardInterrupt):
        revert.finish(lambda _: noticed.set())
    over.set()
    assert revert.begin().wait(30)
    assert (len(tries), str(revert.error)) == (1, "the machine is too busy")


def test_the_error_of_a_revert_is_kept_for_whoever_waits() -> None:
    def work() -> None:
        raise ServiceError("ray-worker-0 did not start")

    revert = reverting(work)
    revert.finish(lambda count: pytest.fail(str(count)))
    assert revert.problems == ("the fault could not be reverted: ray-worker-0 did not start",)
    with pytest.raises(ServiceError, match="did not start"):
        revert.check()
