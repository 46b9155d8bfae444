"""Processes beside each other: what is shown of them, and how an interrupt ends them."""

from __future__ import annotations

import io
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from lab.host import command
from lab.host.lanes import TEARDOWN_SECONDS, Beside, Terminal
from tests.fakes.host import FakeClock


class Terminated(KeyboardInterrupt):
    """What SIGTERM to labctl alone raises."""


class Child:
    """A process that writes a line at each look, and ends at the third."""

    def __init__(self, journal: list[object], stop: BaseException | None = None, **options: Any) -> None:
        self.journal, self.stop, self.kept = journal, stop, options.get("stdout")
        self.looks = 0

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def poll(self) -> int | None:
        self.looks += 1
        assert self.kept is not None
        self.kept.write(b"line %d\n" % self.looks)
        self.kept.flush()
        return 3 if self.looks == 3 else None

    def wait(self, timeout: float | None = None) -> int:
        self.journal.append(("wait", timeout))
        if timeout is None and self.stop is not None:
            raise self.stop
        if self.stop is None and timeout is not None and ("kill",) not in self.journal:
            raise subprocess.TimeoutExpired("pytest", timeout)
        return 2

    def send_signal(self, number: int) -> None:
        self.journal.append(("signal", number))

    def kill(self) -> None:
        self.journal.append(("kill",))


Started = Callable[[BaseException | None], list[object]]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """Has every process be a Child; returns its journal."""

    def start(stop: BaseException | None) -> list[object]:
        journal: list[object] = []
        monkeypatch.setattr(command, "start", lambda *_, **options: Child(journal, stop, **options))
        return journal

    return start


WAITED = ("wait", TEARDOWN_SECONDS)


@pytest.mark.parametrize(
    ("stop", "told"), [(KeyboardInterrupt(), ()), (Terminated(), (("signal", signal.SIGINT),))], ids=repr
)
def test_an_interrupted_process_is_waited_for(
    started: Started, stop: KeyboardInterrupt, told: tuple[object, ...]
) -> None:
    journal = started(stop)
    with pytest.raises(type(stop)):
        Terminal().run(["pytest"], {})
    assert journal == [("wait", None), *told, WAITED], "Ctrl-C has reached the child already"

    journal = started(stop)
    Beside(["pytest"], {}).interrupt(stop)
    assert journal == [*told, WAITED]


def test_one_that_does_not_end_is_killed(started: Started) -> None:
    journal = started(None)
    Beside(["pytest"], {}).interrupt(KeyboardInterrupt())
    assert journal == [WAITED, ("kill",), ("wait", None)]


def test_it_is_shown_to_its_last_words(started: Started) -> None:
    started(None)
    out = io.BytesIO()
    assert Beside(["pytest"], {}).show(out, FakeClock()) == 3
    assert out.getvalue() == b"line 1\nline 2\nline 3\n"
