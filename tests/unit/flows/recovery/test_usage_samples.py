"""Samples of resource use: taken now and then, kept beside a receipt, and never in the way."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from lab.errors import EngineError, StoreError
from lab.flows.recovery import usage_samples as module
from lab.flows.recovery.usage_samples import Sample, Sampler, Samples, key_of, read_samples
from lab.topology import Usage
from tests.unit.flows.world import W0, W1, Drill

RECEIPT = ".raylab/receipts/job-1-1800000000.json"


@pytest.fixture
def asked(world: Drill, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Which services were measured, each time; they use 50 % of a core and 1000 bytes."""
    calls: list[tuple[str, ...]] = []

    def usage(services: Sequence[str]) -> dict[str, Usage]:
        calls.append(tuple(services))
        return {service: Usage(50.0, 1000) for service in services}

    monkeypatch.setattr(world.runtime, "usage", usage)
    return calls


def test_every_node_and_the_store_are_sampled(world: Drill, asked: list[tuple[str, ...]]) -> None:
    sampler = Sampler(world.lab, clock=world.clock)
    sampler.look()
    world.clock.sleep(2)
    sampler.look()
    sampled = sampler.stop()

    assert set(asked[0]) == {"ray-head", W0, W1, "minio"}
    assert [s.at for s in sampled.samples if s.service == W0] == [world.clock() - 2, world.clock()]
    assert sampled.samples[0] == Sample(world.clock() - 2, "minio", 50.0, 1000, None)
    assert sampled.problem == ""


def test_a_thread_samples_until_it_is_stopped(
    world: Drill, asked: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    third, measure = threading.Event(), world.runtime.usage

    def usage(services: Sequence[str]) -> dict[str, Usage]:
        if len(asked) == 2:
            third.set()
        return measure(services)

    monkeypatch.setattr(world.runtime, "usage", usage)
    sampler = Sampler(world.lab, world.clock, period=0.0)
    sampler.start()
    sampler.start()
    assert third.wait(10)
    sampled = sampler.stop()

    assert len(asked) >= 3
    assert len(sampled.samples) == 4 * len(asked)


@pytest.mark.parametrize(("spent", "pause"), [(0.01, 2.0), (1.0, 20.0)])
def test_what_takes_much_processor_time_is_measured_more_rarely(
    world: Drill, asked: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, spent: float, pause: float
) -> None:
    pauses: list[float | None] = []

    class Stopped(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)
            self.set()
            return True

    monkeypatch.setattr(time, "thread_time", lambda: spent * len(asked))
    sampler = Sampler(world.lab, world.clock)
    sampler._stopped = Stopped()
    sampler._run()
    assert pauses == [pytest.approx(pause)]


def test_what_cannot_be_measured_is_said_and_does_not_raise(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    def usage(services: Sequence[str]) -> dict[str, Usage]:
        raise EngineError("the engine is gone")

    monkeypatch.setattr(world.runtime, "usage", usage)
    sampler = Sampler(world.lab, clock=world.clock)
    sampler.look()

    assert sampler.stop() == Samples((), "resource use could not be measured: the engine is gone")


def test_a_cluster_that_is_silent_leaves_what_the_runtime_measures(
    world: Drill, asked: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.api.silence()
    sampler = Sampler(world.lab, clock=world.clock)
    sampler.look()

    assert {s.cpu_percent for s in sampler.stop().samples} == {50.0}


def test_samples_are_kept_beside_their_receipt_and_read_back(world: Drill) -> None:
    taken = Samples((Sample(1.0, W0, 12.5, 7, None), Sample(3.0, W0, None, None, 80.0)))
    key = taken.keep(world.store, RECEIPT)

    assert key == key_of(RECEIPT) == ".raylab/receipts/job-1-1800000000.usage.json"
    assert json.loads(world.store.get(key))["schema"] == "usage/1"
    assert read_samples(world.store.get(key)) == taken


def test_a_store_that_is_away_is_the_callers_to_know(world: Drill) -> None:
    world.store.failure = StoreError("gone")
    with pytest.raises(StoreError):
        Samples().keep(world.store, RECEIPT)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"schema": "usage/9", "samples": []}'])
def test_what_is_no_samples_is_said(data: bytes) -> None:
    assert read_samples(data) == Samples((), "the samples are not in the form usage/1")


def test_a_row_that_makes_no_sense_is_left_out() -> None:
    rows: list[Any] = [7, {"at": "noon", "service": W0}, {"at": 1}, {"at": 2, "service": W1}]
    data = json.dumps({"schema": module.SCHEMA, "samples": rows}).encode()
    assert read_samples(data).samples == (Sample(2.0, W1),)
