"""Interrupts are held back while something must not be left half done, and are never lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.host.interrupts import held_back


class Arrived(BaseException):
    """What the test's handlers raise."""


@contextmanager
def handlers(handler: object) -> Iterator[None]:
    previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number in previous:
        signal.signal(number, handler)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


def refuse(number: int, _: object) -> None:
    raise Arrived(signal.Signals(number))


def interrupted(done: list[str], *numbers: signal.Signals) -> None:
    """Something that must be done whole, while signals come."""
    with held_back():
        for number in numbers:
            signal.raise_signal(number)
        done.append("the whole of it")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_arrives_at_the_end(number: signal.Signals) -> None:
    done: list[str] = []
    with handlers(refuse):
        with pytest.raises(Arrived) as caught:
            interrupted(done, number, signal.SIGINT)
        assert signal.getsignal(number) is refuse

    assert done == ["the whole of it"]
    assert caught.value.args == (number,)


def test_ctrl_c_arrives_at_the_end() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(done, signal.SIGINT)

    assert done


def test_what_is_ignored_stays_ignored() -> None:
    with handlers(signal.SIG_IGN), held_back():
        signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_an_error_inside_gets_out_and_the_handlers_are_back() -> None:
    before = signal.getsignal(signal.SIGINT)

    with pytest.raises(ValueError, match="inside"), held_back():
        raise ValueError("inside")
    assert signal.getsignal(signal.SIGINT) is before


def test_in_another_thread_nothing_is_touched() -> None:
    seen: list[object] = []

    def look() -> None:
        with held_back():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
