"""`head-kill` over a fake lab: which workers are started again, and how long they get to find back."""

from __future__ import annotations

import pytest

from lab.faults import Scene
from lab.faults.head_kill import REJOIN_SECONDS, HeadKill
from lab.runtime.fake import FakeRuntime
from lab.topology import HEAD, LabSpec, State, worker

W0, W1 = worker(0), worker(1)


def lab(*, gcs_ft: bool) -> FakeRuntime:
    runtime = FakeRuntime("raylab")
    runtime.up(LabSpec(workers=2, gcs_ft=gcs_ft))
    runtime.host.journal.clear()
    return runtime


def fault(runtime: FakeRuntime) -> HeadKill:
    return HeadKill(runtime.clock, runtime.clock.sleep)


def test_the_head_is_killed_and_nothing_else() -> None:
    runtime = lab(gcs_ft=True)
    fault(runtime).inject(Scene(runtime, HEAD))
    assert runtime.calls("kill", "stop", "pause") == (("kill", HEAD),)


@pytest.mark.parametrize("gcs_ft", [True, False])
def test_afterwards_the_whole_lab_is_well(gcs_ft: bool) -> None:
    runtime = lab(gcs_ft=gcs_ft)
    subject = fault(runtime)
    subject.inject(Scene(runtime, HEAD))
    runtime.clock.sleep(5)

    subject.revert(Scene(runtime, HEAD))

    assert runtime.status().healthy
    subject.revert(Scene(runtime, HEAD))
    assert runtime.status().healthy


def test_a_worker_that_does_not_find_back_is_started_again_after_a_while() -> None:
    runtime = lab(gcs_ft=True)
    subject = fault(runtime)
    subject.inject(Scene(runtime, HEAD))
    runtime.pause(W1)
    begin = runtime.clock()

    subject.revert(Scene(runtime, HEAD))

    assert runtime.clock() - begin >= REJOIN_SECONDS
    assert ("start", W1) in runtime.calls("start")
    assert ("start", W0) not in runtime.calls("start")
    found = runtime.status().service(W1)
    assert found is not None
    assert found.state is State.HEALTHY
