"""Waiting until a lab is whole."""

from __future__ import annotations

import pytest

from lab.errors import WaitTimeoutError
from lab.lab import Lab
from lab.runtime.ready import wait_ready
from lab.services import worker
from lab.topology import LabSpec
from tests.fakes import FakeRuntime


def test_a_whole_lab_is_not_waited_for() -> None:
    runtime = FakeRuntime("raylab")
    runtime.up(LabSpec("raylab"))
    began = runtime.clock()

    assert Lab(runtime).wait_ready(timeout=5).healthy
    assert runtime.clock() == began


def test_a_service_that_comes_back_ends_the_wait() -> None:
    runtime = FakeRuntime("raylab")
    runtime.up(LabSpec("raylab"))
    runtime.kill(worker(0))
    began = runtime.clock()
    runtime.clock.after(7, lambda: runtime.start(worker(0), wait=False))

    assert wait_ready(runtime, 60, clock=runtime.clock).healthy
    assert 7 <= runtime.clock() - began < 20


def test_after_the_deadline_the_error_says_what_is_missing_and_what_it_wrote_last() -> None:
    runtime = FakeRuntime("raylab")
    runtime.up(LabSpec("raylab"))
    runtime.say(worker(1), "out of memory")
    runtime.kill(worker(1))
    began = runtime.clock()

    with pytest.raises(WaitTimeoutError) as caught:
        wait_ready(runtime, 30, clock=runtime.clock)
    first, *lines = caught.value.message.splitlines()
    assert first.startswith("lab raylab is not ready after 30 s: ray-worker-1 is exited")
    assert lines[0] == "ray-worker-1: Its last lines:"
    assert lines[-1] == "  out of memory"
    assert "`labctl restart ray-worker-1 --lab raylab`" in caught.value.hint
    assert runtime.clock() - began == pytest.approx(30)


def test_a_lab_that_nobody_starts_is_said_to_be_down() -> None:
    runtime = FakeRuntime("raylab")

    with pytest.raises(WaitTimeoutError, match="it is not up") as caught:
        wait_ready(runtime, 3, clock=runtime.clock)
    assert "labctl up --lab raylab" in caught.value.hint
