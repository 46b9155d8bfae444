"""Waiting until a lab is whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.errors import WaitTimeoutError
from lab.lab import Lab
from lab.runtime.fake import FakeRuntime
from lab.runtime.ready import wait_ready
from lab.topology import LabSpec, LabStatus, ServiceStatus, State, worker


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

    assert wait_ready(runtime, 60, clock=runtime.clock, sleep=runtime.clock.sleep).healthy
    assert 7 <= runtime.clock() - began < 20


def test_after_the_deadline_the_error_says_what_is_missing_and_what_it_wrote_last() -> None:
    runtime = FakeRuntime("raylab")
    runtime.up(LabSpec("raylab"))
    runtime.say(worker(1), "out of memory")
    runtime.kill(worker(1))
    began = runtime.clock()

    with pytest.raises(WaitTimeoutError) as caught:
        wait_ready(runtime, 30, clock=runtime.clock, sleep=runtime.clock.sleep)
    first, *lines = caught.value.message.splitlines()
    assert first.startswith("lab raylab is not ready after 30 s: ray-worker-1 is exited")
    assert lines[0] == "ray-worker-1: Its last lines:"
    assert lines[-1] == "  out of memory"
    assert "`labctl restart ray-worker-1 --name raylab`" in caught.value.hint
    assert runtime.clock() - began == pytest.approx(30)


def test_a_lab_that_nobody_starts_is_said_to_be_down() -> None:
    runtime = FakeRuntime("raylab")

    with pytest.raises(WaitTimeoutError, match="lab raylab is not ready after 3 s: it is not up") as caught:
        wait_ready(runtime, 3, clock=runtime.clock, sleep=runtime.clock.sleep)
    assert "labctl up --name raylab" in caught.value.hint


class Inside(FakeRuntime):
    """A lab seen from its own JupyterLab, which always has a note."""

    kind = "inside"
    up_now = True

    def status(self) -> LabStatus:
        """With a store that does not answer."""
        lost = ServiceStatus("minio", State.EXITED, "http://minio:9000 does not answer")
        found = replace(super().status(), services=(lost,), notes=("seen from inside the lab",))
        return replace(found, up=self.up_now)


@pytest.mark.parametrize(
    ("up", "command"), [(True, "labctl restart minio --name raylab"), (False, "labctl up --name raylab")]
)
def test_inside_a_lab_the_services_are_named_and_the_command_is_one_for_the_host(
    up: bool, command: str
) -> None:
    runtime = Inside("raylab")
    runtime.up_now = up

    with pytest.raises(WaitTimeoutError) as caught:
        wait_ready(runtime, 3, clock=runtime.clock, sleep=runtime.clock.sleep)
    assert "minio is exited (http://minio:9000 does not answer)" in caught.value.message
    assert "seen from inside" not in caught.value.message
    assert caught.value.hint == f"on the host: {command}"
