"""Threads of the controller: one task for each job at a time, whatever becomes of the one before."""

from __future__ import annotations

import threading

import pytest

from lab.daemons.queue.workers import Threads


def test_a_task_that_raises_makes_room_for_the_next_and_is_said() -> None:
    said: list[str] = []
    heard = threading.Event()

    def say(line: str) -> None:
        said.append(line)
        heard.set()

    def broken() -> None:
        raise KeyError("ns/job")

    threads = Threads(say)
    assert threads.start("ns/job", broken)
    assert heard.wait(30)
    while threads.busy("ns/job"):
        threading.Event().wait(0.001)
    done = threading.Event()
    assert threads.start("ns/job", done.set)
    assert done.wait(30)
    assert said == ["ns/job: KeyError('ns/job')"]


def test_a_thread_that_cannot_be_made_blocks_no_job_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    threads = Threads(said.append)

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert not threads.start("ns/job", lambda: None)
    assert not threads.busy("ns/job")
    assert said == ["ns/job: can't start new thread"]


def test_a_job_has_one_task_at_a_time() -> None:
    go, began = threading.Event(), threading.Event()

    def task() -> None:
        began.set()
        assert go.wait(30)

    threads = Threads()
    assert threads.start("ns/job", task)
    assert began.wait(30)
    assert threads.busy("ns/job")
    assert not threads.start("ns/job", task)
    assert threads.start("ns/other", go.set)
