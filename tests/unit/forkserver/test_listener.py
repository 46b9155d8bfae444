"""The server of forks: the trouble of one launcher is not that of all."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from forkserver import listener
from forkserver.conversation import Conversation
from forkserver.installed import Installed
from forkserver.listener import Listener
from forkserver.reads import Reads

FORKED = ("what", "was asked for")


class Selector:
    """Finds ready what a test says, one after another."""

    def __init__(self, *ready: Any) -> None:
        self._ready = list(ready)

    def select(self) -> list[tuple[Any, int]]:
        return [(SimpleNamespace(data=self._ready.pop(0)), 1)]

    def unregister(self, connection: Any) -> None:
        assert connection.fileno() >= 0


def serving(*ready: Any) -> Listener:
    made = Listener("node", "/nowhere", None, (), {}, Reads(), Installed([]))
    made._selector = Selector(*ready)  # type: ignore[assignment]
    made._woken = lambda: None  # type: ignore[method-assign]
    return made


def failing(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    delays: list[float] = []
    monkeypatch.setattr("time.sleep", delays.append)
    return delays


def test_too_many_open_files_end_no_server(slept: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    full = failing(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
    assert serving(full, full, full, lambda: FORKED).serve() == FORKED
    assert slept == [listener.REST_SECONDS] * 3
    assert capsys.readouterr().out.count("Too many open files") == 1, "it is said once"


def test_a_launcher_that_makes_trouble_is_given_up_alone(
    slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, its = socket.socketpair()
    talk = Conversation(ours)
    made = serving(talk, lambda: FORKED)
    made._talks[ours.fileno()] = talk
    monkeypatch.setattr(made, "_hear", lambda talk: failing(KeyError("descriptors"))())
    assert made.serve() == FORKED
    assert its.recv(1) == b"", "its connection is closed, so it starts in the ordinary way"
    its.close()
    assert (made._talks, slept) == ({}, [])


def test_a_fork_that_fails_does_not_serve_in_the_place_of_the_server(
    slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = iter([1, 2])
    monkeypatch.setattr("os.getpid", lambda: next(ids, 2))
    with pytest.raises(ValueError, match="broken"):
        serving(failing(ValueError("broken")), lambda: FORKED).serve()


def test_who_serves_hears_how_many_forks_live(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    made = serving(lambda: FORKED)
    made._forks[7] = Conversation(socket.socket())
    assert made.serve(on_forks=counts.append) == FORKED
    del made._woken
    made._wake = os.pipe()
    os.set_blocking(made._wake[0], False)
    ended = iter([(7, 0), (0, 0)])
    monkeypatch.setattr("os.waitpid", lambda pid, flags: next(ended))
    made._woken()
    assert counts == [1, 0]
