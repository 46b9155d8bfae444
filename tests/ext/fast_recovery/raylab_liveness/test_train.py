"""Hung ranks, by the time in which a controller ran."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from raylab_switches import OFF

pytest.importorskip("ray")
from ray.train.v2._internal.exceptions import WorkerHealthCheckTimeoutError

from raylab_liveness import train
from tests.fakes.host import FakeClock

TIMEOUT_SECONDS = 30.0


class Group:
    """Ray's group of two ranks: it counts by the clock, as Ray does."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._worker_health_check_timeout_s = TIMEOUT_SECONDS
        self._world_rank_to_ongoing_poll: dict[int, float] = {}
        self.hangs: set[int] = set()

    def _poll_workers_and_collect_errors(self, timeout: float | None) -> list[Any]:
        now = self._clock()
        ongoing = {rank: self._world_rank_to_ongoing_poll.get(rank, now) for rank in self.hangs}
        self._world_rank_to_ongoing_poll = ongoing
        late = {rank for rank, since in ongoing.items() if now - since > TIMEOUT_SECONDS}
        return [
            SimpleNamespace(error=WorkerHealthCheckTimeoutError("hangs") if rank in late else None)
            for rank in range(2)
        ]


class Controller:
    """A controller that polls its group."""

    def __init__(self) -> None:
        self.clock = FakeClock(0.0)
        patched = type("Patched", (Group,), {})
        train.count_own_time(patched, self.clock)
        self.group = patched(self.clock)

    def poll(self, seconds: float, every: float = 0.2) -> list[bool]:
        """Poll for so long; whether each rank was hung at the end."""
        end, errors = self.clock.now + seconds, [False, False]
        while self.clock.now < end:
            self.clock.now += every
            errors = [bool(status.error) for status in self.group._poll_workers_and_collect_errors(0.1)]
        return errors


def test_a_rank_that_does_not_answer_a_controller_that_runs_is_hung() -> None:
    controller = Controller()
    controller.poll(5.0)
    controller.group.hangs = {1}
    assert controller.poll(TIMEOUT_SECONDS - 1.0) == [False, False]
    assert controller.poll(3.0) == [False, True]


def test_after_a_pause_of_the_whole_machine_nobody_is_hung() -> None:
    controller = Controller()
    controller.poll(5.0)
    controller.group.hangs = {0, 1}
    controller.poll(0.4)
    controller.clock.now += 3600.0
    assert controller.poll(1.0) == [False, False]
    controller.group.hangs = set()
    assert controller.poll(1.0) == [False, False]


def test_a_rank_that_is_hung_is_found_after_such_a_pause_as_well() -> None:
    controller = Controller()
    controller.group.hangs = {0}
    controller.poll(0.4)
    controller.clock.now += 3600.0
    assert controller.poll(TIMEOUT_SECONDS + 1.0) == [True, False]


def test_with_the_patch_off_ray_counts_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[Any] = []
    monkeypatch.setattr(train, "count_own_time", changed.append)
    monkeypatch.setenv("RAYLAB_SERVICE_NAME", "ray-worker-0")
    monkeypatch.setenv(OFF, "liveness")
    train.Liveness().after_controller_start(None)
    assert changed == []
    monkeypatch.delenv(OFF)
    train.Liveness().after_controller_start(None)
    assert len(changed) == 1
