"""`head-kill` over a fake lab: which workers are started again, and how long they get to find back."""

from __future__ import annotations

import pytest

from lab.errors import EngineError, LabDownError, ServiceError
from lab.faults import Scene
from lab.faults.kinds.head_kill import REJOIN_SECONDS, HeadKill
from lab.runtime.base import OnProgress, ignore_progress
from lab.services import HEAD, worker
from lab.topology import LabSpec, State, Struck
from tests.fakes import FakeRuntime

W0, W1 = worker(0), worker(1)


def lab(*, gcs_ft: bool, stock_ray: bool = False) -> FakeRuntime:
    runtime = FakeRuntime("raylab")
    runtime.up(LabSpec(workers=2, gcs_ft=gcs_ft, stock_ray=stock_ray))
    runtime.host.journal.clear()
    return runtime


def fault(runtime: FakeRuntime) -> HeadKill:
    return HeadKill(runtime.clock)


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


def test_workers_of_stock_ray_do_not_find_back_to_another_cluster_and_are_not_waited_for() -> None:
    runtime = lab(gcs_ft=False, stock_ray=True)
    subject = fault(runtime)
    subject.inject(Scene(runtime, HEAD))
    runtime.pause(W1)
    begin = runtime.clock()
    subject.revert(Scene(runtime, HEAD))
    assert runtime.clock() - begin < REJOIN_SECONDS
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
    worker = runtime.status().service(W1)
    assert worker is not None
    assert worker.state is State.HEALTHY


class Racing(FakeRuntime):
    """Two workers are frozen when the head comes back; something happens in between, as a test sets it."""

    def __init__(self) -> None:
        super().__init__("raylab")
        self.up(LabSpec(workers=2, gcs_ft=True))
        self.rejoins = ""
        """This worker finds back while another one is being started."""
        self.fails: Exception | None = None
        """The error of `kill` of W0."""
        self.ends = True
        """True if W0 is gone by then."""
        self.kill(HEAD)
        for service in (W0, W1):
            self.pause(service)
        self.host.journal.clear()

    def start(self, service: str, on_progress: OnProgress = ignore_progress, *, wait: bool = True) -> None:
        if service == W0 and self.rejoins:
            self.host.labs["raylab"].spawn(self.rejoins, 4711, 0)
        super().start(service, on_progress, wait=wait)

    def kill(self, service: str) -> Struck:
        if service == W0 and self.fails is not None:
            if self.ends:
                self.die(W0)
            raise self.fails
        return super().kill(service)


def test_a_worker_that_finds_back_while_another_one_is_started_is_left_alone() -> None:
    runtime = Racing()
    runtime.rejoins = W1

    fault(runtime).revert(Scene(runtime, HEAD))

    assert runtime.calls("kill") == (("kill", W0),)
    assert ("start", W1) not in runtime.calls("start")
    worker = runtime.status().service(W1)
    assert worker is not None
    assert (worker.state, worker.pid) == (State.HEALTHY, 4711)


@pytest.mark.parametrize("error", [LabDownError("it is not running"), EngineError("no such container")])
def test_a_worker_that_ends_by_itself_meanwhile_keeps_no_other_one_down(error: Exception) -> None:
    runtime = Racing()
    runtime.fails = error
    fault(runtime).revert(Scene(runtime, HEAD))
    assert runtime.status().healthy


def test_a_frozen_worker_that_cannot_be_ended_is_told() -> None:
    runtime = Racing()
    runtime.fails, runtime.ends = EngineError("the engine does not answer"), False
    with pytest.raises(EngineError, match="does not answer"):
        fault(runtime).revert(Scene(runtime, HEAD))


def test_a_worker_that_does_not_come_back_keeps_no_other_one_down() -> None:
    runtime = lab(gcs_ft=False)
    subject = fault(runtime)
    subject.inject(Scene(runtime, HEAD))
    runtime.fail_on_start(W0, ServiceError("ray-worker-0 ended while starting"))

    with pytest.raises(ServiceError, match="ray-worker-0 ended"):
        subject.revert(Scene(runtime, HEAD))

    worker = runtime.status().service(W1)
    assert worker is not None
    assert worker.state is State.HEALTHY


def test_what_is_left_of_a_worker_without_its_cluster_is_left_to_its_start() -> None:
    runtime = lab(gcs_ft=False)
    subject = fault(runtime)
    subject.inject(Scene(runtime, HEAD))
    runtime.host.journal.clear()

    subject.revert(Scene(runtime, HEAD))

    assert runtime.calls("kill") == ()
    assert runtime.calls("start") == (("start", HEAD), ("start", W0), ("start", W1))
    assert runtime.status().healthy
