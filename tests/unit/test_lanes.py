"""Processes beside each other: what is shown of them, and how an interrupt ends them."""

from __future__ import annotations

import io
import signal
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from lab.host import command
from tests.fakes.host import FakeClock
from tests.lanes import TEARDOWN_SECONDS, Terminal


class Terminated(KeyboardInterrupt):
    """What SIGTERM to labctl alone raises."""


class Child:
    """A process that writes a line at each look and ends at the third, unless it is one that hangs."""

    def __init__(self, name: str, watched: WatchedTerminal, kept: Any) -> None:
        self.name, self.watched, self.kept = name, watched, kept
        self.looks = 0

    def poll(self) -> int | None:
        self.looks += 1
        self.write(f"line {self.looks}")
        return 3 if self.looks == 3 else None

    def write(self, line: str) -> None:
        if self.kept is not None:
            self.kept.write(f"{self.name}: {line}\n".encode())
            self.kept.flush()

    def wait(self, timeout: float | None = None) -> int:
        if timeout is None and self.watched.stop is not None and not self.kept:
            raise self.watched.stop
        if timeout is not None and self.name in self.watched.hanging:
            self.watched.clock.sleep(timeout)
            raise subprocess.TimeoutExpired(self.name, timeout)
        self.watched.journal.append(f"{self.name} ended")
        return 2

    def send_signal(self, number: int) -> None:
        self.watched.journal.append((self.name, number))
        self.write("interrupted")

    def kill(self) -> None:
        self.watched.journal.append(f"{self.name} killed")


class WatchedTerminal:
    """A terminal whose processes are Children, what they are told, and what is shown."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.journal: list[object] = []
        self.shown = io.BytesIO()
        self.clock = FakeClock()
        self.hanging: tuple[str, ...] = ()
        self.stop: BaseException | None = None
        """What comes while the process in the foreground is waited for."""
        out = SimpleNamespace(flush=lambda: None, buffer=self.shown)
        monkeypatch.setattr("sys.stdout", out)
        self.terminal = Terminal(clock=self.clock)

        def start(argv: list[str], **options: Any) -> Child:
            return Child(argv[0], self, None if options["stdout"] is out else options["stdout"])

        monkeypatch.setattr(command, "start", start)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> WatchedTerminal:
    return WatchedTerminal(monkeypatch)


def test_one_that_was_kept_is_shown_to_its_last_words(watched: WatchedTerminal) -> None:
    with watched.terminal as terminal:
        begun = terminal.begin(["labs"], {})
        assert terminal.run(["unit"], {}) == 2
        assert watched.shown.getvalue() == b""
        assert terminal.show(begun) == 3
    assert watched.shown.getvalue() == b"labs: line 1\nlabs: line 2\nlabs: line 3\n"
    assert watched.journal == ["unit ended"], "there was nothing left to end"


STOPS = [(KeyboardInterrupt(), False), (Terminated(), True), (BrokenPipeError(), True)]


@pytest.mark.parametrize(("stop", "interrupted"), STOPS, ids=repr)
def test_what_goes_on_is_told_at_once_and_waited_for(
    watched: WatchedTerminal, stop: BaseException, interrupted: bool
) -> None:
    watched.stop = stop
    for name in ("first", "second"):
        watched.terminal.begin([name], {})
    with pytest.raises(type(stop)), watched.terminal:
        watched.terminal.run(["unit"], {})
    names = ("unit", "first", "second")
    signals = [(name, signal.SIGINT) for name in names] if interrupted else []
    assert watched.journal == [*signals, *(f"{name} ended" for name in names)]


def test_what_is_shown_when_it_is_interrupted_is_waited_for(
    watched: WatchedTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(seconds: float) -> None:
        raise Terminated

    monkeypatch.setattr(watched.clock, "sleep", interrupted)
    with pytest.raises(Terminated), watched.terminal as terminal:
        terminal.show(terminal.begin(["labs"], {}))
    assert watched.journal == [("labs", signal.SIGINT), "labs ended"]
    assert watched.shown.getvalue() == b"labs: line 1\nlabs: interrupted\n"


def test_all_that_hang_share_one_deadline_and_their_last_words_are_shown(watched: WatchedTerminal) -> None:
    watched.hanging = ("first", "second")
    for name in watched.hanging:
        watched.terminal.begin([name], {})
    began = watched.clock()
    with pytest.raises(Terminated), watched.terminal:
        raise Terminated
    assert watched.clock() - began == pytest.approx(TEARDOWN_SECONDS)
    assert watched.journal[2:] == ["first killed", "first ended", "second killed", "second ended"]
    assert watched.shown.getvalue() == b"first: interrupted\nsecond: interrupted\n"
