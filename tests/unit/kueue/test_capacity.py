"""Capacity that is lost: the slack queue pays first, teams keep what is theirs, and all of it returns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kueue.capacity import SLACK, misfit, overcommitted
from kueue.engine import Engine
from kueue.item import ADMITTED, PENDING
from kueue.model import (
    BEST_EFFORT_FIFO,
    STRICT_FIFO,
    FlavorResource,
    PodSet,
    PreemptionPolicy,
    Setup,
    Workload,
)
from kueue.plainly import said
from tests.unit.kueue.made import GPU, cohort, decided, job, queue, reasons_of, setup
from tests.unit.kueue.test_properties import MANY, PLACE, setups, workloads

RECLAIM = PreemptionPolicy("LowerOrNewerEqualPriority", "Any")
TEAMS = setup(
    queue(SLACK, 8, "all", preemption=RECLAIM),
    queue("blue", 8, "all", preemption=RECLAIM),
    queue("red", 8, "all", preemption=RECLAIM),
)


def losing(given_setup: Setup, lost: int, *jobs: Workload) -> Engine:
    return decided(replace(given_setup, lost={PLACE: lost}), *jobs, live=True)


def lose(engine: Engine, lost: int, now: float = 20.0) -> None:
    engine.apply(replace(engine.setup, lost={PLACE: lost} if lost else {}), now)


def state(engine: Engine, name: str) -> str:
    return engine.items[f"ns/{name}"].state


@pytest.mark.parametrize(
    ("has", "shown"),
    [
        (24, []),
        (23, [f"quotas of {GPU} add up to 24 (blue 8, red 8, {SLACK} 8), but the lab has 23"]),
        (0, [f"quotas of {GPU} add up to 24 (blue 8, red 8, {SLACK} 8), but the lab has 0"]),
    ],
)
def test_quotas_that_give_out_more_than_there_is(has: int, shown: list[str]) -> None:
    excesses = overcommitted(TEAMS, {GPU: has, "cpu": 8000})
    assert [str(excess).partition(": jobs")[0] for excess in excesses] == shown


def test_what_a_cohort_adds_and_every_flavor_counts() -> None:
    both = setup(queue("a", {"fast": 1, "slow": 2}, "all"), cohorts=[cohort("all", amounts=1)])
    (excess,) = overcommitted(both, {GPU: 3})
    assert (excess.quota, dict(excess.owners)) == (4, {"a": 3, "all": 1})


@pytest.mark.parametrize(("lost", "lends"), [(0, 8), (1, 7), (8, 0), (9, 0)])
def test_the_slack_queue_lends_what_it_has_less_what_is_lost(lost: int, lends: int) -> None:
    engine = losing(TEAMS, lost)
    slack = engine.tree.queues[SLACK]
    assert slack.subtree[PLACE] - slack.local.get(PLACE, 0) == lends


@pytest.mark.parametrize(("lost", "most"), [(0, 24), (1, 23), (8, 16), (10, 14)])
def test_a_team_borrows_no_more_than_is_there(lost: int, most: int) -> None:
    assert losing(TEAMS, lost).tree.queues["blue"].available(PLACE) == most


@pytest.mark.parametrize("lost", [1, 8])
def test_both_teams_keep_their_nominal_quota(lost: int) -> None:
    engine = losing(TEAMS, lost, job("b", "blue", 8), job("r", "red", 8))
    assert (state(engine, "b"), state(engine, "r")) == (ADMITTED, ADMITTED)


def test_a_borrower_gives_back_for_a_team_within_its_quota() -> None:
    engine = losing(TEAMS, 4, job("b1", "blue", 8, created=1.0), job("b2", "blue", 12, created=2.0))
    assert (state(engine, "b1"), state(engine, "b2")) == (ADMITTED, ADMITTED)
    engine.submit(job("r", "red", 8, created=3.0), 20.0)
    assert reasons_of(engine.settle(20.0), "Preempted") == {"b1": "InCohortReclamation"}


def test_nothing_that_runs_is_evicted_for_lost_capacity() -> None:
    engine = losing(TEAMS, 0, job("b", "blue", 24, created=1.0))
    lose(engine, 8)
    assert engine.settle(21.0) == []
    assert state(engine, "b") == ADMITTED
    assert engine.tree.queues["red"].left(PLACE) == -8


def test_without_a_slack_queue_fewer_are_admitted_and_all_return() -> None:
    engine = losing(setup(queue("a", 2, "all"), queue("b", 2, "all")), 1)
    for name, where in (("one", "a"), ("two", "a"), ("three", "b"), ("four", "b")):
        engine.submit(job(name, where, 1, created=float(len(name))), 20.0)
    engine.settle(20.0)
    assert [state(engine, name) for name in ("one", "two", "four", "three")].count(PENDING) == 1
    lose(engine, 0, 30.0)
    assert len(reasons_of(engine.settle(30.0), "Admitted")) == 1


def test_a_job_that_waits_for_lost_capacity_is_not_told_that_it_never_fits() -> None:
    engine = losing(setup(queue("a", 2)), 1, job("one", "a", 2))
    assert engine.condition(engine.items["ns/one"])[0] == "WaitingForQuota"


def test_of_two_trees_the_larger_one_pays() -> None:
    engine = losing(setup(queue("a", 2), queue("b", 4)), 5)
    assert [engine.tree.queues[name].available(PLACE) for name in "ab"] == [1, 0]


def test_a_slack_queue_without_a_cohort_pays_as_any_other() -> None:
    engine = losing(setup(queue(SLACK, 2), queue("b", 4)), 3)
    assert [engine.tree.queues[name].available(PLACE) for name in (SLACK, "b")] == [2, 1]


def test_what_is_lost_of_another_resource_is_nothing() -> None:
    engine = Engine(replace(TEAMS, lost={FlavorResource("other", GPU): 5}), live=True)
    assert engine.tree.queues["blue"].available(PLACE) == 24


@MANY
@given(setups(), workloads(), st.integers(0, 12))
def test_what_holds_whatever_is_lost(given_setup: Any, given_jobs: Any, lost: int) -> None:
    """To draw a case takes longer than to ask both of it."""
    no_more_is_admitted_than_is_left(given_setup, given_jobs, lost)
    what_was_lost_and_returned_leaves_no_trace(given_setup, given_jobs, lost)


def no_more_is_admitted_than_is_left(given_setup: Any, given_jobs: Any, lost: int) -> None:
    engine = losing(given_setup, lost, *given_jobs)
    root = engine.tree.cohorts["root"]
    assert root.usage.get(PLACE, 0) <= max(0, root.subtree.get(PLACE, 0) - lost)


def what_was_lost_and_returned_leaves_no_trace(given_setup: Any, given_jobs: Any, lost: int) -> None:
    engine = losing(given_setup, lost)
    lose(engine, 0)
    plain = losing(given_setup, 0)
    for twin in (engine, plain):
        for one in given_jobs:
            twin.submit(one, 30.0)
        twin.settle(30.0)
    assert {k: i.state for k, i in engine.items.items()} == {k: i.state for k, i in plain.items.items()}


ONE_EACH = ({"cpu": 8000, GPU: 1}, {"cpu": 8000, GPU: 1}, {"cpu": 32000, GPU: 0})


@pytest.mark.parametrize(
    ("requests", "count", "words"),
    [
        ({GPU: 1, "cpu": 8000}, 2, ""),
        ({}, 100, ""),
        ({GPU: 2}, 1, "no node has 2 GPUs, the largest has 1: it can never start here"),
        ({"memory": 2**30}, 1, "no node has 1Gi memory, the largest has 0: it can never start here"),
        ({GPU: 1, "cpu": 9000}, 1, "it fits on no node, even if all were free: it can never start here"),
        (
            {GPU: 1},
            3,
            "only 2 of its 3 parts fit on the nodes, even if all were free: it can never start here",
        ),
    ],
)
def test_what_the_nodes_could_never_hold(requests: dict[str, int], count: int, words: str) -> None:
    message = misfit(PodSet("main", count, requests), count, ONE_EACH)
    assert said(message) == words
    assert misfit(PodSet("main", count, requests), count, ()) == ""


@pytest.mark.parametrize("strategy", [STRICT_FIFO, BEST_EFFORT_FIFO])
def test_what_fits_on_no_node_leaves_its_quota_to_others(strategy: str) -> None:
    given_setup = replace(setup(queue("all", 2, strategy=strategy)), nodes=ONE_EACH)
    engine = decided(given_setup, job("big", "all", 2), job("small", "all", 1, created=2.0), live=True)
    assert (state(engine, "big"), state(engine, "small")) == (PENDING, ADMITTED)
    engine.apply(replace(engine.setup, nodes=({GPU: 8},)), 20.0)
    engine.finish("ns/small", 20.0)
    engine.settle(20.0)
    assert state(engine, "big") == ADMITTED
