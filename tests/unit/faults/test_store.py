"""The faults of the object store over a fake lab: s3-down, s3-slow, s3-credentials-revoked."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from lab.errors import LabDownError, ServiceError
from lab.faults import Scene, find_fault
from lab.faults.kinds.store import S3Slow
from lab.services import STORE
from lab.topology import State
from tests.fakes import FakeRuntime


def state(runtime: FakeRuntime) -> State:
    store = runtime.status().service(STORE)
    assert store is not None
    return store.state


# s3-down


def test_the_store_is_down_until_the_revert(runtime: FakeRuntime) -> None:
    fault, scene = find_fault("s3-down"), Scene(runtime, STORE)
    fault.inject(scene)
    assert state(runtime) is State.EXITED
    fault.revert(scene)
    fault.revert(scene)
    assert runtime.status().healthy


def test_a_store_that_does_not_come_back_is_an_error(runtime: FakeRuntime) -> None:
    fault, scene = find_fault("s3-down"), Scene(runtime, STORE)
    fault.inject(scene)
    runtime.fail_on_start(STORE, ServiceError("ended while starting"))
    with pytest.raises(ServiceError):
        fault.revert(scene)


# s3-credentials-revoked


def test_the_training_key_is_refused_until_the_revert(runtime: FakeRuntime) -> None:
    fault, scene = find_fault("s3-credentials-revoked"), Scene(runtime, STORE)
    fault.inject(scene)
    assert not runtime.training_key
    assert state(runtime) is State.HEALTHY
    fault.revert(scene)
    fault.revert(scene)
    assert runtime.training_key


def test_a_store_that_is_down_is_started_before_it_gets_the_key_back(runtime: FakeRuntime) -> None:
    fault, scene = find_fault("s3-credentials-revoked"), Scene(runtime, STORE)
    fault.inject(scene)
    runtime.die(STORE)
    fault.revert(scene)
    assert runtime.status().healthy
    assert runtime.training_key


# s3-slow


def slow(runtime: FakeRuntime, turns: int) -> tuple[S3Slow, list[float], threading.Event]:
    """The fault, how long each of its waits is, and an event that is set after so many waits."""
    waits: list[float] = []

    class Over(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            waits.append(timeout)
            runtime.clock.sleep(timeout)
            if len(waits) >= turns:
                self.set()
            return self.is_set()

    over = Over()
    return S3Slow(over=over), waits, over


def scene(runtime: FakeRuntime, **given: float) -> Scene:
    return Scene(runtime, STORE, parameters=S3Slow.kind.settle(given))


def test_freezes_and_thaws_take_turns_in_the_share_that_was_asked_for(runtime: FakeRuntime) -> None:
    fault, waits, over = slow(runtime, turns=4)
    hit = scene(runtime, delay=0.6, share=60)
    fault.inject(hit)
    assert threading.Event.wait(over, 10)
    fault.revert(hit)
    assert waits == pytest.approx([0.6, 0.4, 0.6, 0.4])
    assert runtime.calls("pause", "resume")[:4] == (
        ("pause", STORE),
        ("resume", STORE),
        ("pause", STORE),
        ("resume", STORE),
    )
    assert state(runtime) is State.HEALTHY


def test_the_revert_thaws_a_store_that_is_frozen_just_then(runtime: FakeRuntime) -> None:
    fault, _, over = slow(runtime, turns=3)
    hit = scene(runtime)
    fault.inject(hit)
    assert threading.Event.wait(over, 10)
    fault.revert(hit)
    done = [call for call, *_ in runtime.calls("pause", "resume", "start")]
    assert done[-3:] == ["pause", "resume", "start"]
    assert state(runtime) is State.HEALTHY


def test_another_process_undoes_it_by_thawing(runtime: FakeRuntime) -> None:
    runtime.pause(STORE)
    S3Slow().revert(scene(runtime))
    assert state(runtime) is State.HEALTHY


def dies(runtime: FakeRuntime) -> None:
    runtime.die(STORE)


def dies_for_good(runtime: FakeRuntime) -> None:
    runtime.die(STORE)
    runtime.fail_on_start(STORE, ServiceError("no store any more"))


@pytest.mark.parametrize(("happens", "error"), [(dies, None), (dies_for_good, ServiceError)])
def test_a_store_that_dies_meanwhile_ends_the_turns_and_is_started(
    runtime: FakeRuntime, happens: Callable[[FakeRuntime], None], error: type[Exception] | None
) -> None:
    began = threading.Event()

    class Over(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if not began.is_set() and (timeout or 0.0) > 0.4:
                return False
            happens(runtime)
            began.set()
            return False

    fault, hit = S3Slow(over=Over()), scene(runtime)
    fault.inject(hit)
    assert began.wait(10)
    if error is None:
        fault.revert(hit)
        assert runtime.status().healthy
    else:
        with pytest.raises(error, match="no store any more"):
            fault.revert(hit)


def test_a_store_that_is_down_cannot_be_slow_and_the_revert_starts_it(runtime: FakeRuntime) -> None:
    runtime.die(STORE)
    fault, hit = S3Slow(), scene(runtime)
    with pytest.raises(LabDownError):
        fault.inject(hit)
    fault.revert(hit)
    assert runtime.status().healthy
