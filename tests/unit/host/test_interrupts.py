"""Interrupts are held back while something must not be left half done, and are never lost."""

from __future__ import annotations

import io
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from lab.host.interrupts import AGAIN_SECONDS, SignalError, exit_code, held_back, raised


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


def test_an_error_inside_does_not_lose_the_signal() -> None:
    def broken() -> None:
        with held_back():
            signal.raise_signal(signal.SIGTERM)
            raise ValueError("inside")

    with handlers(refuse), pytest.raises(Arrived) as caught:
        broken()
    assert isinstance(caught.value.__context__, ValueError)


class Finalized:
    """Is interrupted while it is finalized, where Python reports what is raised, and goes on."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


class Answer(io.RawIOBase):
    """Is interrupted while Python asks whether it is closed, as an HTTP response may be, and says nothing."""

    def __init__(self) -> None:
        self.asked = False

    @property
    def closed(self) -> bool:
        if not self.asked:
            self.asked = True
            signal.raise_signal(signal.SIGTERM)
        return True


@pytest.mark.parametrize("kind", [Finalized, Answer])
def test_what_is_raised_in_a_finalizer_is_raised_again(
    kind: Callable[[], object], capsys: pytest.CaptureFixture[str]
) -> None:
    def waits() -> None:
        with raised():
            kind()
            threading.Event().wait(60)

    with pytest.raises(SignalError, match="ended by SIGTERM") as caught:
        waits()
    assert exit_code(caught.value) == 143
    assert capsys.readouterr().err == ""


def test_an_interrupt_comes_once() -> None:
    before = signal.getsignal(signal.SIGTERM)
    quiet = threading.Event()
    with raised():
        try:
            signal.raise_signal(signal.SIGTERM)
        except SignalError as error:
            kept = error
        assert not quiet.wait(5 * AGAIN_SECONDS)
    del kept
    assert not quiet.wait(5 * AGAIN_SECONDS)
    assert signal.getsignal(signal.SIGTERM) is before


def test_other_errors_in_a_finalizer_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __del__(self) -> None:
            raise ValueError("in the end")

    reported: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda dropped: reported.append(dropped.exc_type))
    with raised():
        Broken()
    assert reported == [ValueError]


def test_in_another_thread_nothing_is_touched() -> None:
    seen: list[object] = []

    def look() -> None:
        with held_back():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
