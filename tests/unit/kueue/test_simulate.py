"""Workloads over time: arrivals, ends, time limits, back-off, stops and admission fair sharing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kueue.model import (
    AdmissionFairSharing,
    Config,
    Fungibility,
    LocalQueue,
    PreemptionPolicy,
    ResourceFlavor,
    Setup,
    WaitForPodsReady,
    Workload,
)
from kueue.simulate import Simulation, simulate
from kueue.trace import document
from tests.unit.kueue.made import cohort, job, queue, running, setup

RECLAIM = PreemptionPolicy(within="LowerPriority", reclaim="Any")


def events(simulation: Simulation, *kinds: str) -> list[tuple[float, str, str]]:
    """When, what, and to whom."""
    return [
        (change.at - simulation.start, change.event, change.workload.removeprefix("ns/"))
        for change in simulation.changes
        if not kinds or change.event in kinds
    ]


def reasons(simulation: Simulation, event: str) -> list[str]:
    return [change.reason for change in simulation.changes if change.event == event]


def test_what_is_preempted_goes_on_where_it_was() -> None:
    given = setup(queue("a", 4, "all", preemption=RECLAIM), queue("b", 4, "all", preemption=RECLAIM))
    simulation = simulate(
        given, [job("lent", "a", 8, duration=100.0), job("owner", "b", 4, created=40.0, duration=30.0)]
    )
    assert events(simulation, "Admitted", "Preempted", "Finished") == [
        (0.0, "Admitted", "lent"),
        (40.0, "Preempted", "lent"),
        (40.0, "Admitted", "owner"),
        (70.0, "Finished", "owner"),
        (70.0, "Admitted", "lent"),
        (130.0, "Finished", "lent"),
    ]
    assert reasons(simulation, "Requeued") == ["Preempted"]
    assert [(span.begin, span.end) for span in simulation.spans] == [(0.0, 40.0), (40.0, 70.0), (70.0, 130.0)]


def test_the_end_is_when_the_last_thing_happened() -> None:
    simulation = simulate(setup(queue("a", 4)), [job("long", "a", 1, duration=100.0, max_execution=10.0)])
    assert events(simulation, "Deactivated") == [(10.0, "Deactivated", "long")]
    assert simulation.end == 10.0


@pytest.mark.parametrize(("strategy", "order"), [("StrictFIFO", ["big"]), ("BestEffortFIFO", ["small"])])
def test_only_a_strict_queue_waits_behind_its_head(strategy: str, order: list[str]) -> None:
    given = setup(queue("a", 4, strategy=strategy))
    held = running("held", "a", 2, duration=10.0)
    waiting = [job("big", "a", 4, order=1, duration=5.0), job("small", "a", 2, order=2, duration=50.0)]
    simulation = simulate(given, [held, *waiting])
    assert [name for _, _, name in events(simulation, "Admitted")][:1] == order


def test_a_strict_queue_holds_up_only_itself() -> None:
    given = setup(
        queue("a", 2, "all", strategy="StrictFIFO", preemption=RECLAIM),
        queue("b", 2, "all", preemption=RECLAIM),
    )
    simulation = simulate(given, [job("never", "a", 9), job("behind", "a", 1, order=1), job("other", "b", 4)])
    assert events(simulation, "Admitted") == [(0.0, "Admitted", "other")]


def test_higher_priority_first_then_who_came_first() -> None:
    given = setup(queue("a", 1))
    simulation = simulate(
        given,
        [
            job("late", "a", 1, created=2.0, duration=1.0),
            job("early", "a", 1, created=1.0, duration=1.0),
            job("urgent", "a", 1, created=2.0, priority=5, duration=1.0),
            job("first", "a", 1, created=0.0, duration=10.0),
        ],
    )
    assert [name for _, _, name in events(simulation, "Admitted")] == ["first", "urgent", "early", "late"]


def test_cycles_are_made_on_the_state_as_it_is() -> None:
    given = setup(queue("a", 2))
    waiting = [job(f"w{place}", "a", 1, created=float(place)) for place in range(3)]
    assert [len(events(simulate(given, waiting, cycles=n), "Admitted")) for n in (1, 2, 3)] == [1, 2, 2]
    assert simulate(given, waiting, cycles=1).start == 2.0


def test_until_ends_it_early() -> None:
    simulation = simulate(setup(queue("a", 1)), [job("long", "a", 1, duration=100.0)], until=10.0)
    assert events(simulation) == [(0.0, "Admitted", "long")]
    assert simulation.end == 10.0


def test_it_begins_at_the_last_moment_that_a_status_tells_of() -> None:
    held = running("held", "a", 1, at=100.0, duration=30.0)
    simulation = simulate(setup(queue("a", 1)), [held, job("new", "a", 1, created=90.0, duration=1.0)])
    assert simulation.start == 100.0
    assert events(simulation, "Finished", "Admitted") == [
        (30.0, "Finished", "held"),
        (30.0, "Admitted", "new"),
        (31.0, "Finished", "new"),
    ]


def test_the_time_limit_counts_all_that_it_ran() -> None:
    given = setup(queue("a", 1))
    simulation = simulate(given, [job("long", "a", 1, max_execution=50.0, executed=20.0)])
    assert events(simulation) == [(0.0, "Admitted", "long"), (30.0, "Deactivated", "long")]
    assert reasons(simulation, "Deactivated") == ["MaximumExecutionTimeExceeded"]
    assert simulation.engine.items["ns/long"].reason == "DeactivatedDueToMaximumExecutionTimeExceeded"


SLOW: dict[str, Any] = {"ready_after": None}


def test_what_does_not_start_comes_back_later_and_later_until_it_is_given_up() -> None:
    waits = WaitForPodsReady(timeout=10.0, backoff_base=20.0, backoff_limit=2)
    simulation = simulate(
        setup(queue("a", 1), config=Config(pods_ready=waits)), [job("slow", "a", 1, **SLOW)]
    )
    assert events(simulation) == [
        (0.0, "Admitted", "slow"),
        (10.0, "Requeued", "slow"),
        (30.0, "Requeued", "slow"),
        (30.0, "Admitted", "slow"),
        (40.0, "Requeued", "slow"),
        (80.0, "Requeued", "slow"),
        (80.0, "Admitted", "slow"),
        (90.0, "Deactivated", "slow"),
    ]
    assert reasons(simulation, "Requeued") == ["PodsReadyTimeout", "BackoffFinished"] * 2
    assert reasons(simulation, "Deactivated") == ["RequeuingLimitExceeded"]


@pytest.mark.parametrize(("timestamp", "second"), [("Eviction", "other"), ("Creation", "slow")])
def test_after_a_timeout_the_place_in_the_queue_is_as_configured(timestamp: str, second: str) -> None:
    waits = WaitForPodsReady(timeout=10.0, backoff_base=5.0, timestamp=timestamp)
    simulation = simulate(
        setup(queue("a", 1), config=Config(pods_ready=waits)),
        [
            job("slow", "a", 1, created=0.0, **SLOW),
            job("next", "a", 1, created=1.0, duration=9.0),
            job("other", "a", 1, created=2.0, duration=9.0),
        ],
        until=20.0,
    )
    assert [name for _, _, name in events(simulation, "Admitted")] == ["slow", "next", second]


def test_admission_can_wait_for_pods() -> None:
    waits = WaitForPodsReady(timeout=100.0, block_admission=True)
    given = setup(queue("a", 4), config=Config(pods_ready=waits))
    slow = [job(f"w{place}", "a", 1, order=place, ready_after=7.0) for place in range(3)]
    simulation = simulate(given, slow)
    assert events(simulation, "Admitted") == [(7.0 * place, "Admitted", f"w{place}") for place in range(3)]
    assert "WaitingForPodsReady" in reasons(simulation, "Pending")


def stopped(policy: str, of: str) -> Setup:
    """A queue of two GPUs that is stopped, or whose LocalQueue is."""
    if of == "ClusterQueue":
        return setup(queue("a", 2, stop=policy))
    return setup(queue("a", 2), local_queues={("ns", "a"): LocalQueue("ns", "a", "a", policy)})


@pytest.mark.parametrize("of", ["ClusterQueue", "LocalQueue"])
def test_hold_evicts_nobody_and_admits_nobody(of: str) -> None:
    simulation = simulate(stopped("Hold", of), [running("held", "a", 1, duration=5.0), job("new", "a", 1)])
    assert events(simulation, "Admitted", "Preempted", "Requeued", "Finished") == [(5.0, "Finished", "held")]
    assert simulation.engine.items["ns/new"].reason == "Suspended"
    assert simulation.engine.items["ns/new"].message == f"{of} a is stopped"


@pytest.mark.parametrize("of", ["ClusterQueue", "LocalQueue"])
def test_hold_and_drain_evicts(of: str) -> None:
    simulation = simulate(stopped("HoldAndDrain", of), [running("held", "a", 1, duration=5.0)])
    assert events(simulation, "Requeued") == [(0.0, "Requeued", "held")]
    assert reasons(simulation, "Requeued") == [f"{of}Stopped"]


def test_what_goes_on_after_a_stop_is_admitted_again() -> None:
    simulation = simulate(stopped("Hold", "ClusterQueue"), [running("held", "a", 1), job("new", "a", 1)])
    changes = simulation.engine.apply(setup(queue("a", 2)), 50.0)
    assert [(change.event, change.reason) for change in changes] == [("Requeued", "ClusterQueueRestarted")]
    assert [change.workload for change in simulation.engine.settle(50.0)] == ["ns/new"]


def test_what_is_not_active_stays_out_until_it_is() -> None:
    simulation = simulate(setup(queue("a", 2)), [job("off", "a", 1, active=False), running("on", "a", 1)])
    engine = simulation.engine
    assert engine.items["ns/off"].state == "Deactivated"
    assert [change.event for change in engine.set_active("ns/on", False, 5.0)] == ["Deactivated"]
    assert [change.reason for change in engine.set_active("ns/off", True, 6.0)] == ["Reactivated"]
    assert [change.event for change in engine.settle(6.0)] == ["Admitted"]


def test_less_quota_stops_nobody_but_admits_nobody() -> None:
    simulation = simulate(setup(queue("a", 4)), [running("held", "a", 4)])
    engine = simulation.engine
    assert engine.apply(setup(queue("a", 2)), 1.0) == []
    engine.submit(job("new", "a", 1), 1.0)
    assert [change.event for change in engine.settle(1.0)] == ["Pending"]
    engine.finish("ns/held", 2.0)
    assert [change.event for change in engine.settle(2.0)] == ["Admitted"]


def test_who_used_less_goes_first() -> None:
    fair = AdmissionFairSharing(half_life=1000.0, sampling=10.0)
    given = setup(
        queue("a", 1, usage_based=True),
        config=Config(admission_fair_sharing=fair),
        local_queues={("ns", name): LocalQueue("ns", name, "a") for name in ("ann", "ben")},
    )
    greedy = [job(f"ann-{place}", "ann", 1, order=place, duration=100.0) for place in range(3)]
    simulation = simulate(given, [*greedy, job("ben", "ben", 1, order=9, duration=100.0)])
    assert [name for _, _, name in events(simulation, "Admitted")] == ["ann-0", "ben", "ann-1", "ann-2"]


def test_a_job_that_ended_before_usage_was_looked_at_was_not_free() -> None:
    fair = AdmissionFairSharing(half_life=1000.0, sampling=100.0)
    given = setup(
        queue("a", 1, usage_based=True),
        config=Config(admission_fair_sharing=fair),
        local_queues={("ns", name): LocalQueue("ns", name, "a") for name in ("ann", "ben", "cem")},
    )
    jobs = [
        job("short", "ann", 1, created=0.0, duration=10.0),
        job("long", "cem", 1, created=5.0, duration=200.0),
        job("second", "ann", 1, created=120.0, duration=10.0),
        job("first", "ben", 1, created=130.0, duration=10.0),
    ]
    simulation = simulate(given, jobs)
    assert [name for _, _, name in events(simulation, "Admitted")] == ["short", "long", "first", "second"]


def test_a_heavier_local_queue_may_use_more() -> None:
    fair = AdmissionFairSharing(half_life=1000.0, sampling=10.0)
    doors = {
        ("ns", "ann"): LocalQueue("ns", "ann", "a", weight=9.0),
        ("ns", "ben"): LocalQueue("ns", "ben", "a"),
    }
    given = setup(
        queue("a", 1, usage_based=True), config=Config(admission_fair_sharing=fair), local_queues=doors
    )
    simulation = simulate(
        given,
        [
            job("ann-0", "ann", 1, order=0, duration=100.0),
            job("ben-0", "ben", 1, order=1, duration=100.0),
            job("ann-1", "ann", 1, order=2, duration=100.0),
            job("ben-1", "ben", 1, order=3, duration=100.0),
        ],
    )
    assert [name for _, _, name in events(simulation, "Admitted")] == ["ann-0", "ben-0", "ann-1", "ben-1"]


@pytest.mark.parametrize(
    ("given", "workload", "reason", "message"),
    [
        (setup(queue("a", 1)), job("w", "nowhere", 1), "Misconfigured", "LocalQueue nowhere doesn't exist"),
        (
            setup(queue("a", 1), local_queues={("ns", "a"): LocalQueue("ns", "a", "b")}),
            job("w", "a", 1),
            "Misconfigured",
            "ClusterQueue b doesn't exist",
        ),
        (setup(queue("a", 1), flavors={}), job("w", "a", 1), "Suspended", "ClusterQueue a is inactive"),
        (
            setup(queue("a", 1, "x"), cohorts=[cohort("x", "y"), cohort("y", "x")]),
            job("w", "a", 1),
            "Suspended",
            "ClusterQueue a is inactive",
        ),
        (
            setup(queue("a", 1, selector=None)),
            job("w", "a", 1),
            "Misconfigured",
            "workload namespace doesn't match ClusterQueue selector",
        ),
    ],
)
def test_why_a_workload_is_not_even_tried(
    given: Setup, workload: Workload, reason: str, message: str
) -> None:
    item = simulate(given, [workload]).engine.items["ns/w"]
    assert (item.reason, item.message) == (reason, message)


def test_the_next_flavor_is_tried_before_anybody_else() -> None:
    policy = PreemptionPolicy(within="LowerPriority")
    two = queue(
        "a",
        {"one": 2, "two": 2},
        preemption=policy,
        fungibility=Fungibility("MayStopSearch", "TryNextFlavor"),
    )
    held = [running("low", "a", 2, flavor="one", priority=-1)]
    simulation = simulate(
        setup(two, flavors={n: ResourceFlavor(n) for n in ("one", "two")}), [*held, job("w", "a", 2)]
    )
    (admitted,) = [change for change in simulation.changes if change.event == "Admitted"]
    assert admitted.flavors == {"main": {"nvidia.com/gpu": "two"}}


def test_the_document() -> None:
    given = setup(queue("a", 2, "all", preemption=RECLAIM), queue("b", 2, "all", preemption=RECLAIM))
    simulation = simulate(
        given,
        [
            job("lent", "a", 4, duration=20.0),
            job("owner", "b", 2, created=5.0, duration=10.0),
            job("big", "b", 9, created=6.0),
        ],
    )
    shown = document(simulation)
    assert shown.schema == "queue-simulation/1"
    assert {event.event for event in shown.events} == {
        *("Admitted", "Preempted", "Pending", "Requeued", "Finished"),
    }
    by_name = {workload.workload: workload for workload in shown.workloads}
    lent, big = by_name["ns/lent"], by_name["ns/big"]
    assert (lent.preemptions, lent.finished_at, lent.waited) == (1, 30.0, 0.0)
    assert [(span["from"], span["to"]) for span in lent.held] == [(0.0, 5.0), (15.0, 30.0)]
    assert (big.state, big.reason, big.position) == ("Pending", "ExceedsMaxQuota", 0)
    (a, b) = shown.cluster_queues
    assert a.nominal == {"h100": {"nvidia.com/gpu": 2}}
    used = [(point.at, point.flavors.get("h100", {}).get("nvidia.com/gpu", 0)) for point in a.usage]
    assert used == [(0.0, 4), (5.0, 0), (15.0, 4), (30.0, 0)]
    assert (b.pending, b.admitted, b.weighted_share) == (1, 0, 0)


def test_two_that_preempt_each_other_without_end_are_given_up() -> None:
    borrow = PreemptionPolicy(reclaim="LowerPriority", borrow="LowerPriority")
    queues = [
        queue("a", 1, "left", preemption=borrow, strategy="StrictFIFO"),
        queue("b", 2, "left", strategy="StrictFIFO"),
        queue("c", 2, "root"),
    ]
    given = setup(*queues, cohorts=[cohort("root", "", 0), cohort("left", "root", 6)])
    sizes = (("w0", "a", 1, 1), ("w1", "a", 1, 1), ("w2", "a", 1, 0), ("w3", "b", 2, 0), ("w4", "b", 4, 0))
    jobs = [job(name, door, gpus, priority=priority) for name, door, gpus, priority in sizes]
    simulation = simulate(given, [*jobs, job("w5", "a", 4, priority=1)])
    assert simulation.engine.restless == {0.0}
    assert document(simulation).restless == (0.0,)
    assert len(simulation.changes) < 2000


def test_the_same_files_give_the_same_run() -> None:
    given = setup(*(queue(name, 2, "all", preemption=RECLAIM) for name in "abc"))
    jobs = [
        job(f"{name}{place}", name, 1 + place % 3, created=float(place), duration=3.0, priority=place % 2)
        for name in "abc"
        for place in range(6)
    ]
    first, again = simulate(given, jobs), simulate(given, [replace(job) for job in reversed(jobs)])
    assert first.changes == again.changes
