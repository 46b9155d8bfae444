"""Interrupts: none that is raised gets lost, and they are held back while something must be done whole."""

from __future__ import annotations

import _thread
import contextlib
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator

HELD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

SIGNALLED = 128
"""Exit code after a signal, less its number, as in a shell."""

AGAIN_SECONDS = 0.01
"""After so long an interrupt that Python dropped is sent again: what dropped it is over by then."""


class SignalError(KeyboardInterrupt):
    """Ctrl-C, SIGTERM or SIGHUP, raised in the main thread: handled like Ctrl-C, cleanup included."""

    def __init__(self, number: int) -> None:
        """`number` is the signal's."""
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """The exit code of Ctrl-C, or of the signal that it stands for, as in a shell."""
    return SIGNALLED + int(getattr(interrupt, "number", signal.SIGINT))


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Raise SignalError for Ctrl-C, SIGTERM and SIGHUP here, and let none of them be lost.

    Python drops what is raised while an object is finalized: in `__del__`, `weakref.finalize`, and without a
    word in `closed` of an HTTP response. The signal is sent again then, which is when the exception is gone:
    whoever handles one and does not leave keeps it. What is ignored stays ignored (`nohup`). A no-op outside
    the main thread, where no signal arrives.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    main, inside, hook = threading.get_ident(), [True], sys.unraisablehook

    def send(number: int) -> None:
        time.sleep(AGAIN_SECONDS)
        if inside:
            signal.pthread_kill(main, number)

    def again(number: int) -> None:
        if inside:  # no Thread: what was interrupted may hold its lock
            _thread.start_new_thread(send, (number,))

    def leave(number: int, _: object) -> None:
        error = SignalError(number)
        weakref.finalize(error, again, number).atexit = False
        try:
            raise error
        finally:
            del error  # or it would live as long as its traceback, which has this frame

    def drop(dropped: sys.UnraisableHookArgs) -> None:
        if not isinstance(dropped.exc_value, SignalError):
            hook(dropped)

    sys.unraisablehook = drop
    try:
        with _handled(leave):
            try:
                yield
            finally:
                inside.clear()
    finally:
        sys.unraisablehook = hook


@contextlib.contextmanager
def held_back() -> Iterator[list[int]]:
    """Hold Ctrl-C, SIGTERM and SIGHUP back for a moment; the first that came arrives at the end, or an error.

    Yields the signals that have come so far. An ignored signal stays ignored (`nohup`). A no-op outside the
    main thread, where no signal arrives.
    """
    arrived: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield arrived
        return
    try:
        with _handled(lambda number, _: arrived.append(number)):
            yield arrived
    finally:
        if arrived:
            signal.raise_signal(arrived[0])


@contextlib.contextmanager
def _handled(handler: Callable[[int, object], None]) -> Iterator[None]:
    """Handle these signals so in this context, but for those that are ignored."""
    previous = {
        number: before
        for number in HELD
        if (before := signal.getsignal(number)) not in (signal.SIG_IGN, None)
    }
    for number in previous:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


class Background:
    """Work in a thread of its own, of which it is certain whether it has ended.

    An interrupt in `Thread.join` makes CPython 3.9 to 3.12 take a thread that runs for one that has ended.
    """

    def __init__(self, work: Callable[[], None], name: str) -> None:
        """Begin. The thread does not keep the process from ending."""
        self._work, self._over = work, threading.Event()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def over(self) -> bool:
        """True once the work has ended, however."""
        return self._over.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for its end, at most so long; returns `over`."""
        return self._over.wait(seconds)

    def _run(self) -> None:
        try:
            self._work()
        finally:
            self._over.set()
