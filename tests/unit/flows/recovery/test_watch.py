"""How often a job that is watched has its ledger read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab.flows.recovery.watch import LAST_POLLS, POLL_SECONDS, Watch
from tests.unit.flows.world import JOB, Drill, Training

WATCHED_SECONDS = 60.0


class Reads:
    """The store's listings, each of which takes `seconds`."""

    def __init__(self, world: Drill, seconds: float) -> None:
        self.count, self._world, self._seconds = 0, world, seconds
        self._list = world.lab.store.list

    def __call__(self, *arguments: Any, **options: Any) -> Iterator[Any]:
        self.count += 1
        self._world.clock.sleep(self._seconds)
        return iter(list(self._list(*arguments, **options)))


@pytest.mark.parametrize(("seconds", "share"), [(0.01, 0.05), (0.1, 0.25), (0.75, 0.3), (5.0, 0.75)])
def test_a_long_ledger_is_read_less_often_than_it_could(
    world: Drill, monkeypatch: pytest.MonkeyPatch, seconds: float, share: float
) -> None:
    Training(world, epochs=1000)
    reads = Reads(world, seconds)
    monkeypatch.setattr(world.lab.store, "list", reads)
    watch = Watch(world.lab, JOB, world.clock)
    begin = world.clock()
    while world.clock() - begin < WATCHED_SECONDS:
        watch.poll()
        world.clock.sleep(POLL_SECONDS)

    assert reads.count > 5
    assert reads.count * seconds / (world.clock() - begin) <= share
    assert watch.store_outages.slowest_read == pytest.approx(seconds)

    before = reads.count
    watch.read_the_rest()
    assert reads.count - before == LAST_POLLS, "the last lines are read without a rest"


def test_a_ledger_that_answers_at_once_is_read_at_each_poll(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    Training(world, epochs=1000)
    reads = Reads(world, 0.02)
    monkeypatch.setattr(world.lab.store, "list", reads)
    watch = Watch(world.lab, JOB, world.clock)
    for _ in range(20):
        watch.poll()
        world.clock.sleep(POLL_SECONDS)

    assert reads.count == 20
