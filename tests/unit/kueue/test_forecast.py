"""Forecasts: when a workload could start, on which lengths, and where that cannot be known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kueue.engine import Engine
from kueue.forecast import (
    FAR,
    LIMIT,
    NEVER,
    UNKNOWN,
    USUAL,
    Length,
    Outlook,
    outlook,
    usual_times,
)
from kueue.model import AdmissionFairSharing, Config, LocalQueue, PreemptionPolicy, Setup, Workload
from tests.unit.kueue.made import job, queue, running, setup

NOW = 1000.0
ONE = setup(queue("a", 1))


def look(
    given: Setup, *workloads: Workload, usual: Mapping[str, Length] | None = None, moments: int = 100
) -> Outlook:
    """The outlook of `ns/new`."""
    return outlook(given, workloads, NOW, "ns/new", usual or {}, moments=moments)


def old(**rest: Any) -> Workload:
    """A workload that holds the one GPU since 900."""
    return running("old", "a", 1, at=900.0, **rest)


def test_a_free_quota_is_taken_at_once() -> None:
    outlook = look(ONE, job("new", "a", 1))
    assert (outlook.admitted, outlook.forecast.at, outlook.flavors) == (
        True,
        NOW,
        {"main": {"nvidia.com/gpu": "h100"}},
    )


def test_a_time_limit_ends_the_job_before() -> None:
    outlook = look(ONE, old(max_execution=300.0), job("new", "a", 1))
    assert (outlook.admitted, outlook.reason) == (False, "WaitingForQuota")
    (end,) = outlook.forecast.ends
    assert (outlook.forecast.at, end.workload, end.at) == (1200.0, "ns/old", 1200.0)
    assert end.length == Length(300.0, LIMIT)


def test_time_before_a_preemption_counts() -> None:
    outlook = look(ONE, old(max_execution=300.0, executed=150.0), job("new", "a", 1))
    assert outlook.forecast.at == 1050.0


def test_without_a_limit_the_usual_time_counts() -> None:
    usual = {"ns/old": Length(400.0, USUAL, 3)}
    outlook = look(ONE, old(), job("new", "a", 1), usual=usual)
    assert (outlook.forecast.at, outlook.forecast.ends[0].length) == (1300.0, usual["ns/old"])


def test_a_limit_goes_before_the_usual_time() -> None:
    outlook = look(
        ONE, old(max_execution=300.0), job("new", "a", 1), usual={"ns/old": Length(50.0, USUAL, 3)}
    )
    assert outlook.forecast.at == 1200.0


def test_what_runs_longer_than_usual_can_end_at_any_moment() -> None:
    outlook = look(ONE, old(), job("new", "a", 1), usual={"ns/old": Length(10.0, USUAL, 3)})
    assert (outlook.admitted, outlook.forecast.at) == (False, NOW)


def test_those_before_it_run_first() -> None:
    before = job("before", "a", 1, created=1.0, max_execution=60.0)
    outlook = look(ONE, old(max_execution=300.0), before, job("new", "a", 1, created=2.0))
    assert outlook.forecast.at == 1260.0
    assert [end.workload for end in outlook.forecast.ends] == ["ns/old", "ns/before"]
    assert outlook.position is not None
    assert (outlook.position.in_cluster_queue, outlook.position.of_cluster_queue) == (1, 2)


def test_a_job_without_a_known_length_is_named() -> None:
    outlook = look(ONE, old(), job("new", "a", 1))
    assert (outlook.forecast.at, outlook.forecast.why, outlook.forecast.unknown) == (
        None,
        UNKNOWN,
        ("ns/old",),
    )
    assert [holder.workload for holder in outlook.holders] == ["ns/old"]


def test_one_that_waits_before_it_can_be_the_one_without_a_length() -> None:
    before = job("before", "a", 1, created=1.0)
    outlook = look(ONE, old(max_execution=300.0), before, job("new", "a", 1, created=2.0))
    assert outlook.forecast.unknown == ("ns/before",)


def test_a_job_without_a_length_elsewhere_does_not_matter() -> None:
    given = setup(queue("a", 1), queue("b", 1))
    outlook = look(given, old(max_execution=300.0), running("else", "b", 1), job("new", "a", 1))
    assert outlook.forecast.at == 1200.0


def test_what_can_never_start_is_told_so() -> None:
    for given, workload in (
        (ONE, job("new", "a", 2)),
        (setup(queue("a", 1, stop="Hold")), job("new", "a", 1)),
    ):
        assert look(given, workload).forecast.why == NEVER


def test_a_forecast_is_given_up_after_so_many_moments() -> None:
    outlook = look(ONE, old(max_execution=300.0), job("new", "a", 1), moments=0)
    assert (outlook.forecast.at, outlook.forecast.why) == (None, FAR)


def test_whom_it_would_preempt() -> None:
    given = setup(queue("a", 1, preemption=PreemptionPolicy("LowerPriority")))
    outlook = look(given, old(), job("new", "a", 1, priority=5))
    assert (outlook.admitted, outlook.preempts) == (True, ("ns/old",))


def test_what_was_used_so_far_counts_where_the_order_goes_by_it() -> None:
    doors = {("ns", name): LocalQueue("ns", name, "a") for name in ("x", "y")}
    fair = Config(admission_fair_sharing=AdmissionFairSharing(3600.0))
    given = setup(queue("a", 1, usage_based=True), local_queues=doors, config=fair)
    engine = Engine(given)
    engine.submit(replace(running("greedy", "a", 1), queue="x"), 0.0)
    assert engine.history is not None
    engine.sample(0.0)
    engine.sample(600.0)
    holder = old(max_execution=300.0)
    other = job("first", "y", 1, created=2.0, max_execution=60.0)
    workloads = (holder, job("new", "x", 1, created=1.0), other)
    fresh = outlook(given, workloads, NOW, "ns/new", {})
    used = outlook(given, workloads, NOW, "ns/new", {}, history=engine.history)
    before = {door: engine.history.of(door) for door in doors}
    assert (fresh.forecast.at, used.forecast.at) == (1200.0, 1260.0)
    assert {door: engine.history.of(door) for door in doors} == before


def test_usual_times_are_medians_of_each_kind() -> None:
    usual = usual_times([("digits", 10.0), ("digits", 90.0), ("digits", 20.0), ("food11", 5.0)])
    assert usual == {"digits": Length(20.0, USUAL, 3), "food11": Length(5.0, USUAL, 1)}
