"""Holds interrupts back while something must not be left half done, and tells when it is done."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

HELD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def held_back() -> Iterator[list[int]]:
    """Hold Ctrl-C, SIGTERM and SIGHUP back for a moment; the first that came arrives at the end.

    Yields the signals that have come so far. An ignored signal stays ignored (`nohup`). A no-op outside the
    main thread, where no signal arrives.
    """
    arrived: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield arrived
        return
    previous = {}
    for number in HELD:
        handler = signal.getsignal(number)
        if handler not in (signal.SIG_IGN, None):
            previous[number] = handler
            signal.signal(number, lambda got, _: arrived.append(got))
    try:
        yield arrived
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    if arrived:
        signal.raise_signal(arrived[0])


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
