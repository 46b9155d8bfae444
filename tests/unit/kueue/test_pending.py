"""Order of a queue, who is parked after a try, and what brings the parked back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kueue.engine import Engine
from kueue.item import Item
from kueue.model import (
    BEST_EFFORT_FIFO,
    STRICT_FIFO,
    Config,
    Fungibility,
    LocalQueue,
    PreemptionPolicy,
    Requirement,
    Workload,
)
from kueue.pending import Pending
from tests.unit.kueue.made import job, one_cycle, queue, reasons_of, running, setup

LOWER = PreemptionPolicy(within="LowerPriority")


def filled(*workloads: Workload, strategy: str = BEST_EFFORT_FIFO) -> Pending:
    pending = Pending(strategy, Config())
    for workload in workloads:
        pending.push(Item(workload))
    return pending


def popped(pending: Pending) -> list[str]:
    names = []
    while (item := pending.pop()) is not None:
        names.append(item.workload.name)
    return names


@pytest.mark.parametrize(
    ("workloads", "order"),
    [
        ([job("b", "q", 1, created=2.0), job("a", "q", 1, created=3.0)], ["b", "a"]),
        ([job("low", "q", 1), job("high", "q", 1, created=9.0, priority=1)], ["high", "low"]),
        ([job("b", "q", 1, created=1.0), job("a", "q", 2, created=1.0)], ["a", "b"]),
        ([job("b", "q", 1, order=1), job("a", "q", 2, order=2)], ["b", "a"]),
        (
            [
                job("late", "q", 1, evicted="PodsReadyTimeout", evicted_at=5.0),
                job("middle", "q", 1, created=3.0),
                job("back", "q", 1, created=1.0, evicted="Preempted", evicted_at=9.0),
            ],
            ["back", "middle", "late"],
        ),
    ],
    ids=["time", "priority", "uid", "files", "evicted"],
)
@pytest.mark.parametrize("strategy", [STRICT_FIFO, BEST_EFFORT_FIFO])
def test_order(workloads: list[Workload], order: list[str], strategy: str) -> None:
    assert [item.workload.name for item in filled(*workloads, strategy=strategy)] == order
    assert popped(filled(*workloads, strategy=strategy)) == order


def test_a_shape_is_parked_with_all_that_have_it() -> None:
    pending = filled(job("a", "q", 1), job("b", "q", 1), job("c", "q", 2))
    item = pending.pop()
    assert item is not None
    pending.park(item, "WaitingForQuota", "too little")
    later = Item(job("d", "q", 1))
    pending.push(later)
    assert pending.condition(later) == ("WaitingForQuota", "too little")
    assert popped(pending) == ["c"]
    assert [item.workload.name for item in pending] == ["a", "b", "d"]
    pending.unpark()
    assert popped(pending) == ["a", "b", "d"]


def test_a_strict_queue_parks_no_shape() -> None:
    pending = filled(job("a", "q", 1), job("b", "q", 1), strategy=STRICT_FIFO)
    item = pending.pop()
    assert item is not None
    pending.park(item, "WaitingForQuota", "")
    assert popped(pending) == ["a", "b"]


def test_one_that_is_parked_alone_leaves_the_others() -> None:
    pending = filled(job("a", "q", 1), job("b", "q", 1))
    item = pending.pop()
    assert item is not None
    pending.park_alone(item)
    assert popped(pending) == ["b"]
    pending.unpark()
    assert popped(pending) == []


def test_one_of_a_namespace_that_is_not_taken_costs_others_no_cycle() -> None:
    """Kueue leaves it where it is (cache/queue/inadmissible_workloads.go: queueInadmissibleWorkloads)."""
    ours = Requirement("kubernetes.io/metadata.name", "In", ("ns",))
    given = setup(
        queue("q", 1, selector=(ours,)),
        local_queues={(space, "q"): LocalQueue(space, "q", "q") for space in ("ns", "else")},
    )
    alien = replace(job("alien", "q", 1, priority=9), namespace="else")
    engine, _ = one_cycle(given, running("held", "q", 1), job("new", "q", 1), alien)
    engine.cycle(100.0)
    engine.finish("ns/held", 100.0)
    assert reasons_of(engine.cycle(100.0), "Admitted") == {"new": "Admitted"}


def test_one_that_is_taken_out_is_gone_wherever_it_was() -> None:
    items = [Item(job(name, "q", 1, requeue_at=9.0)) for name in "abc"]
    pending = Pending(BEST_EFFORT_FIFO, Config())
    pending.push(items[0])
    pending.park_alone(items[1])
    pending.put_off(items[2])
    for item in items:
        pending.remove(item)
    pending.unpark()
    assert (popped(pending), list(pending), pending.next_wake()) == ([], [], None)


def test_one_that_waits_for_its_time_comes_back_then() -> None:
    pending = Pending(BEST_EFFORT_FIFO, Config())
    pending.put_off(Item(job("a", "q", 1, requeue_at=9.0)))
    assert (popped(pending), pending.next_wake()) == ([], 9.0)
    assert pending.wake(8.9) == []
    assert len(pending.wake(9.0)) == 1
    assert popped(pending) == ["a"]


def test_who_preempted_comes_first_until_admitted() -> None:
    given = setup(queue("q", 4, preemption=LOWER))
    engine = Engine(given)
    engine.submit(running("low", "q", 4, priority=-1), 0.0)
    engine.submit(job("preemptor", "q", 4, created=5.0), 5.0)
    engine.cycle(5.0)
    engine.submit(job("higher", "q", 4, created=6.0, priority=9), 6.0)
    engine.release_evicted(6.0)
    (admitted,) = [change for change in engine.settle(6.0) if change.event == "Admitted"][:1]
    assert admitted.workload == "ns/preemptor"


@pytest.mark.parametrize(
    ("workload", "heads_again"),
    [
        (job("big", "q", 9), False),  # never fits
        (job("waits", "q", 4), False),  # fits later
    ],
)
def test_after_a_failure_only_an_event_brings_it_back(workload: Workload, heads_again: bool) -> None:
    engine = Engine(setup(queue("q", 4)))
    engine.submit(running("held", "q", 1), 0.0)
    engine.submit(workload, 0.0)
    engine.settle(0.0)
    assert bool(engine.pending["q"].local_queues()) == heads_again
    engine.finish("ns/held", 1.0)
    assert engine.pending["q"].local_queues()


def test_flavors_that_are_left_to_try_are_tried_in_the_next_cycle() -> None:
    stop = Fungibility("MayStopSearch", "MayStopSearch")
    engine = Engine(setup(queue("q", {"one": 2, "two": 2}, preemption=LOWER, fungibility=stop)))
    engine.submit(running("low", "q", 2, flavor="one", priority=-1), 0.0)
    engine.submit(running("high", "q", 2, flavor="two", priority=9), 0.0)
    engine.submit(job("new", "q", 2), 0.0)
    changes = engine.cycle(0.0)
    assert [change.event for change in changes] == ["Preempted", "Pending"]
    assert engine.pending["q"].local_queues()
