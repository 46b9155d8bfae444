"""Properties that hold whatever the queues and workloads are."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kueue.engine import Engine
from kueue.history import UsageHistory
from kueue.model import (
    FINAL_SHARE,
    INITIAL_SHARE,
    AdmissionFairSharing,
    ClusterQueue,
    Cohort,
    Config,
    FlavorResource,
    LocalQueue,
    PreemptionPolicy,
    Setup,
    Workload,
)
from kueue.places import Change
from kueue.reasons import RECLAMATION
from kueue.simulate import simulate
from tests.unit.kueue.made import FLAVOR, GPU, cohort, job, queue, setup, submitted

PLACE = FlavorResource(FLAVOR, GPU)
MANY = settings(database=None, derandomize=True)
"""The same cases in every run; other ones without `derandomize` and with `--hypothesis-seed=NUMBER`."""

SOME = settings(MANY, max_examples=100)
"""As `MANY`, for what simulates to the end twice over."""

NUMBERS = st.integers(0, 6)
LIMITS = st.none() | NUMBERS


@st.composite
def policies(draw: Any) -> PreemptionPolicy:
    """Any policy that may be."""
    reclaim = draw(st.sampled_from(["Never", "LowerPriority", "Any"]))
    borrow = "Never" if reclaim == "Never" else draw(st.sampled_from(["Never", "LowerPriority"]))
    within = draw(st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority"]))
    return PreemptionPolicy(within, reclaim, borrow, draw(LIMITS))


@st.composite
def setups(draw: Any, fair: bool | None = None) -> Setup:
    """Two or three queues in a tree of cohorts."""
    cohorts: list[Cohort] = [cohort("root", "", draw(NUMBERS))]
    for name in ("left", "right"):
        nominal = draw(NUMBERS)
        cohorts.append(cohort(name, "root", (nominal, draw(LIMITS), draw(LIMITS)), weight=draw(WEIGHTS)))
    queues: list[ClusterQueue] = []
    for name in "abc":
        nominal, lending = draw(NUMBERS), draw(LIMITS)
        amounts = (nominal, draw(LIMITS), None if lending is None else min(lending, nominal))
        parent = draw(st.sampled_from(["root", "left", "right"]))
        strategy = draw(st.sampled_from(["StrictFIFO", "BestEffortFIFO"]))
        queues.append(
            queue(name, amounts, parent, preemption=draw(policies()), strategy=strategy, weight=draw(WEIGHTS))
        )
    on = draw(st.booleans()) if fair is None else fair
    config = Config(strategies=(FINAL_SHARE, INITIAL_SHARE)) if on else Config()
    return setup(*queues, cohorts=cohorts, config=config)


WEIGHTS = st.sampled_from([0.0, 0.5, 1.0, 2.0])


@st.composite
def workloads(draw: Any) -> list[Workload]:
    """Up to a dozen workloads."""
    count = draw(st.integers(1, 12))
    return [
        job(
            f"w{place:02}",
            draw(st.sampled_from("abc")),
            draw(st.integers(1, 6)),
            created=float(draw(st.integers(0, 5))),
            priority=draw(st.integers(0, 2)),
            duration=float(draw(st.integers(1, 5))),
        )
        for place in range(count)
    ]


Property = Callable[[Setup, list[Workload]], None]

PROPERTIES: list[Property] = []
"""Those of any setup and workloads: to draw a case takes longer than to ask all of them about it."""


def whatever(holds: Property) -> Property:
    """Have a property asked of every case."""
    PROPERTIES.append(holds)
    return holds


@MANY
@given(setups(), workloads())
def test_what_holds_whatever_the_queues_and_workloads_are(chosen: Setup, jobs: list[Workload]) -> None:
    for holds in PROPERTIES:
        holds(chosen, list(jobs))


def begin(given_setup: Setup, given_workloads: list[Workload]) -> Engine:
    return submitted(given_setup, *given_workloads, now=0.0)


@whatever
def no_queue_or_cohort_goes_over_its_quota(chosen: Setup, jobs: list[Workload]) -> None:
    engine = begin(chosen, jobs)
    for moment in range(30):
        engine.cycle(float(moment))
        for node in (*engine.tree.cohorts.values(), *engine.tree.queues.values()):
            assert node.left(PLACE) >= 0
            assert node.usage.get(PLACE, 0) <= node.potential(PLACE)
        held = sum(item.usage.get(PLACE, 0) for item in engine.items.values())
        assert held <= engine.tree.cohorts["root"].subtree[PLACE] + sum(
            node.local.get(PLACE, 0) for node in (*engine.tree.cohorts.values(), *engine.tree.queues.values())
        )
        engine.release_evicted(float(moment))


@whatever
def reclaim_never_takes_from_a_queue_within_its_quota(chosen: Setup, jobs: list[Workload]) -> None:
    engine = begin(chosen, jobs)
    for moment in range(30):
        borrowed = {name: node.borrows_with(PLACE) for name, node in engine.tree.queues.items()}
        for change in engine.cycle(float(moment)):
            if change.event == "Preempted" and change.reason == RECLAMATION:
                assert borrowed[change.cluster_queue]
        engine.release_evicted(float(moment))


@whatever
def no_victim_is_preempted_for_nothing(chosen: Setup, jobs: list[Workload]) -> None:
    """With any one victim of a single preemptor back, the preemptor would not fit."""
    engine = begin(chosen, jobs)
    for moment in range(30):
        changes = engine.cycle(float(moment))
        gone = [engine.items[change.workload] for change in changes if change.event == "Preempted"]
        heads = [change for change in changes if change.reason == "WaitingForPreemptedWorkloads"]
        if len(heads) == 1 and gone and not any(change.event == "Admitted" for change in changes):
            item = engine.items[heads[0].workload]
            node, wanted = engine.tree.queues[item.cluster_queue], item.workload.pod_sets[0].requests[GPU]
            with engine.snapshot.without(gone):
                assert node.available(PLACE) >= wanted
            for spared in gone:
                with engine.snapshot.without([change for change in gone if change is not spared]):
                    still = node.available(PLACE) >= wanted
                    assert not still or node.borrows_with(PLACE, wanted)
        engine.release_evicted(float(moment))


@whatever
def it_comes_to_rest_and_who_waits_could_not_run(chosen: Setup, jobs: list[Workload]) -> None:
    simulation = simulate(chosen, jobs)
    if simulation.engine.restless:  # as in Kueue, unless its alpha gate for preemptors is on
        assert any(queue.preemption.borrow != "Never" for queue in chosen.cluster_queues.values())
        return
    for item in simulation.engine.items.values():
        if item.state == "Pending" and chosen.cluster_queues[item.cluster_queue].strategy != "StrictFIFO":
            wanted = item.workload.pod_sets[0].requests[GPU]
            assert simulation.engine.tree.queues[item.cluster_queue].available(PLACE) < wanted


@whatever
def in_a_strict_queue_nobody_passes_one_of_the_same_priority(chosen: Setup, jobs: list[Workload]) -> None:
    """As long as nobody is preempted, which sends him back to his place."""
    simulation = simulate(chosen, jobs)
    if any(change.event == "Preempted" for change in simulation.changes):
        return
    admitted = [change.workload for change in simulation.changes if change.event == "Admitted"]
    for name, cluster_queue in chosen.cluster_queues.items():
        if cluster_queue.strategy != "StrictFIFO":
            continue
        for priority in range(3):
            line = sorted(
                (w for w in jobs if w.queue == name and w.priority == priority),
                key=lambda w: (w.created, w.uid),
            )
            ran = [w.key for w in line if w.key in admitted]
            assert ran == [key for key in admitted if key in set(ran)]
            assert ran == [w.key for w in line][: len(ran)]


@whatever
def hold_evicts_nobody(chosen: Setup, jobs: list[Workload]) -> None:
    for name in chosen.cluster_queues:
        engine = begin(chosen, jobs)
        engine.settle(0.0)
        held = {key for key, item in engine.items.items() if item.state == "Admitted"}
        queues = {**chosen.cluster_queues, name: replace(chosen.cluster_queues[name], stop="Hold")}
        changes = [*engine.apply(replace(chosen, cluster_queues=queues), 1.0), *engine.drain(1.0)]
        assert not [change for change in changes if change.workload in held]
        assert {key for key, item in engine.items.items() if item.state == "Admitted"} == held


@whatever
def cycles_leave_no_trace_but_admissions(chosen: Setup, jobs: list[Workload]) -> None:
    engine = begin(chosen, jobs)
    for moment in range(10):
        engine.cycle(float(moment))
        for name, node in engine.tree.queues.items():
            held = sum(item.usage.get(PLACE, 0) for item in engine.snapshot.held[name].values())
            assert node.usage.get(PLACE, 0) == held
        engine.release_evicted(float(moment))


@whatever
def in_a_strict_queue_nobody_starves(chosen: Setup, jobs: list[Workload]) -> None:
    """Where everybody could run at all, everybody does, however large he is and whoever else comes."""
    queues = {name: replace(queue, strategy="StrictFIFO") for name, queue in chosen.cluster_queues.items()}
    strict = replace(chosen, cluster_queues=queues)
    nodes = Engine(strict).tree.queues
    jobs = [job for job in jobs if job.pod_sets[0].requests[GPU] <= nodes[job.queue].potential(PLACE)]
    simulation = simulate(strict, jobs)
    if not simulation.engine.restless:
        assert {key for key, item in simulation.engine.items.items() if item.state != "Finished"} == set()


@SOME
@given(setups(), workloads(), st.randoms(use_true_random=False))
def test_the_order_of_the_files_decides_nothing(
    chosen: Setup, jobs: list[Workload], chance: random.Random
) -> None:
    shuffled = list(jobs)
    chance.shuffle(shuffled)
    names = sorted(chosen.cluster_queues, reverse=True)
    turned = replace(chosen, cluster_queues={name: chosen.cluster_queues[name] for name in names})
    assert simulate(chosen, jobs).changes == simulate(turned, shuffled).changes


@SOME
@given(
    workloads(),
    st.sampled_from(["StrictFIFO", "BestEffortFIFO"]),
    st.floats(0.125, 2.0),
    st.floats(0.5, 20.0),
)
def test_samples_that_are_skipped_would_have_changed_nothing(
    jobs: list[Workload], strategy: str, sampling: float, half_life: float
) -> None:
    """Three LocalQueues share a ClusterQueue; one workload outlasts all others.

    All that happens does so at whole seconds. A sample at the very same moment would come before or after it
    by a rounding, so there is none.
    """
    assume(all(abs(at / sampling - round(at / sampling)) > 1e-6 for at in range(1, 500)))
    fair = AdmissionFairSharing(half_life, sampling)
    doors = {("ns", name): LocalQueue("ns", name, "all") for name in "abc"}
    one = queue("all", 8, strategy=strategy, usage_based=True)
    chosen = setup(one, config=Config(admission_fair_sharing=fair), local_queues=doors)
    jobs = [*jobs, job("long", "a", 1, created=2.0, duration=30.0)]
    skipping = simulate(chosen, jobs)
    with patch.object(UsageHistory, "skip", lambda history, now, *_: history.next_sample(now)):
        every = simulate(chosen, jobs)
    assert timeless(skipping.changes) == timeless(every.changes)


def timeless(changes: list[Change]) -> list[Change]:
    """The same with times rounded: a sum of many steps is not their product."""
    return [replace(change, at=round(change.at, 6)) for change in changes]


def test_a_tiny_sampling_interval_costs_nothing() -> None:
    fair = AdmissionFairSharing(86400.0, 0.001)
    doors = {("ns", name): LocalQueue("ns", name, "all") for name in "ab"}
    for strategy in ("StrictFIFO", "BestEffortFIFO"):
        one = queue("all", 2, strategy=strategy, usage_based=True)
        chosen = setup(one, config=Config(admission_fair_sharing=fair), local_queues=doors)
        jobs = [
            job(f"{door}{number}", door, 1 + number % 2, created=60.0 * number, duration=7200.0)
            for door in "ab"
            for number in range(6)
        ]
        simulation = simulate(chosen, jobs)
        assert {item.state for item in simulation.engine.items.values()} == {"Finished"}
        assert simulation.engine.cycles < 300
