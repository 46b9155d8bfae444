"""The search for flavors, and the search for how many pods."""

from __future__ import annotations

from typing import Any

import pytest

from kueue.flavors import Mode, go_on, preferred, reduced
from kueue.model import (
    ClusterQueue,
    Config,
    FlavorQuotas,
    Fungibility,
    PodSet,
    PreemptionPolicy,
    Quota,
    Requirement,
    ResourceFlavor,
    ResourceGroup,
    Taint,
    Toleration,
    Workload,
)
from tests.unit.kueue.made import GPU, group, job, one_cycle, queue, running, setup

TRY = "TryNextFlavor"
STOP = "MayStopSearch"
BOTH = Fungibility(TRY, TRY)
PREEMPT_FIRST = Fungibility(TRY, TRY, "PreemptionOverBorrowing")

GRADES = (
    # better, worse, under
    ((Mode.FIT, 0), (Mode.FIT, 1), BOTH),
    ((Mode.FIT, 2), (Mode.RECLAIM, 0), BOTH),
    ((Mode.RECLAIM, 0), (Mode.FIT, 2), PREEMPT_FIRST),
    ((Mode.FIT, 1), (Mode.PREEMPT, 1), PREEMPT_FIRST),
    ((Mode.RECLAIM, 1), (Mode.PREEMPT, 0), BOTH),
    ((Mode.PREEMPT, 0), (Mode.PREEMPT, 1), BOTH),
    ((Mode.PREEMPT, 3), (Mode.NO_CANDIDATES, 0), PREEMPT_FIRST),
    ((Mode.FIT, 3), (Mode.NO_CANDIDATES, 0), PREEMPT_FIRST),
    ((Mode.NO_CANDIDATES, 3), (Mode.NO_FIT, 0), BOTH),
    ((Mode.FIT, 9), (Mode.NO_FIT, 0), PREEMPT_FIRST),
)


@pytest.mark.parametrize(("better", "worse", "fungibility"), GRADES)
def test_grades_are_ordered(better: Any, worse: Any, fungibility: Fungibility) -> None:
    assert preferred(better, worse, fungibility)
    assert not preferred(worse, better, fungibility)
    assert not preferred(better, better, fungibility)


@pytest.mark.parametrize(
    ("grade", "fungibility", "on"),
    [
        ((Mode.FIT, 0), BOTH, False),
        ((Mode.FIT, 1), BOTH, True),
        ((Mode.FIT, 1), Fungibility(STOP, TRY), False),
        ((Mode.RECLAIM, 0), Fungibility(STOP, TRY), True),
        ((Mode.RECLAIM, 0), Fungibility(STOP, STOP), False),
        ((Mode.RECLAIM, 1), Fungibility(TRY, STOP), True),
        ((Mode.NO_CANDIDATES, 0), Fungibility(STOP, STOP), True),
        ((Mode.NO_FIT, 0), Fungibility(STOP, STOP), True),
    ],
)
def test_the_search_stops_where_the_queue_says(grade: Any, fungibility: Fungibility, on: bool) -> None:
    assert go_on(grade, fungibility) == on


@pytest.mark.parametrize(
    ("counts", "least", "limit", "best"),
    [
        ([], [], 10, None),
        ([1, 2], [None, 2], 2, None),
        ([5, 5, 5, 5], [3, 4, 1, 2], 15, 15),
        ([5, 5, 5, 5], [3, None, None, None], 19, 19),
        ([5, 5, 5, 5], [3, 4, 1, 2], 10, 10),
        ([5, 5, 5, 5], [3, 4, 1, 2], 20, 20),
        ([5, 5, 5, 5], [3, 4, 1, 2], 9, None),
        ([150_000] * 8, [1] * 8, 150_000, 150_000),
        ([150_000, *[1] * 7], [1, *[None] * 7], 150_000, 150_000),
        ([0], [0], 0, None),
    ],
)
def test_the_largest_counts_that_fit(
    counts: list[int], least: list[int | None], limit: int, best: int | None
) -> None:
    largest = reduced(counts, least, lambda given: sum(given) <= limit)
    assert (None if largest is None else sum(largest)) == best


SPOT, OWN = {"spot": 4, "own": 4}, PreemptionPolicy(within="LowerPriority")
FLAVORS = {"spot": ResourceFlavor("spot", {"kind": "spot"}), "own": ResourceFlavor("own", {"kind": "own"})}

CASES: dict[str, dict[str, Any]] = {
    "the first flavor that fits": {"gpus": 4, "flavor": "spot"},
    "the next where the first is used": {"held": [("spot", 1, 0)], "gpus": 4, "flavor": "own"},
    "none holds so much": {
        "gpus": 5,
        "reason": "ExceedsMaxQuota",
        "message": "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor "
        "own, previously considered podsets requests (0) + current podset request (5) > maximum capacity "
        "(4), insufficient quota for nvidia.com/gpu in flavor spot, previously considered podsets requests "
        "(0) + current podset request (5) > maximum capacity (4)",
    },
    "not enough is free": {
        "held": [("spot", 2, 0), ("own", 3, 0)],
        "gpus": 3,
        "reason": "WaitingForQuota",
        "message": "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in "
        "flavor own, 2 more needed, insufficient unused quota for nvidia.com/gpu in flavor spot, 1 more "
        "needed",
    },
    "a node selector picks": {"gpus": 1, "pods": {"node_selector": {"kind": "own"}}, "flavor": "own"},
    "a selector of other labels says nothing": {
        "gpus": 1,
        "pods": {"node_selector": {"zone": "b"}},
        "flavor": "spot",
    },
    "an affinity picks": {
        "gpus": 1,
        "pods": {"affinity": ((Requirement("kind", "NotIn", ("spot",)),),)},
        "flavor": "own",
    },
    "an affinity that nothing fulfils": {
        "gpus": 1,
        "pods": {"affinity": ((Requirement("kind", "In", ("other",)),),)},
        "reason": "NoMatchingFlavor",
        "message": "couldn't assign flavors to pod set main: flavor own doesn't match node affinity, flavor "
        "spot doesn't match node affinity",
    },
    "a taint bars": {
        "gpus": 1,
        "flavors": {
            "spot": ResourceFlavor("spot", taints=(Taint("spot", "true", "NoSchedule"),)),
            "own": ResourceFlavor("own"),
        },
        "flavor": "own",
    },
    "a taint is tolerated": {
        "gpus": 1,
        "flavors": {
            "spot": ResourceFlavor("spot", taints=(Taint("spot", "true", "NoSchedule"),)),
            "own": ResourceFlavor("own"),
        },
        "pods": {"tolerations": (Toleration("spot", "Exists"),)},
        "flavor": "spot",
    },
    "a taint that only prefers does not bar": {
        "gpus": 1,
        "flavors": {
            "spot": ResourceFlavor("spot", taints=(Taint("spot", "true", "PreferNoSchedule"),)),
            "own": ResourceFlavor("own"),
        },
        "flavor": "spot",
    },
    "preemption in the first comes after a fit in the second": {
        "held": [("spot", 4, -1)],
        "gpus": 4,
        "policy": {"preemption": OWN},
        "flavor": "own",
    },
    "preemption in the first where the search may stop there": {
        "held": [("spot", 4, -1)],
        "gpus": 4,
        "policy": {"preemption": OWN, "fungibility": Fungibility(STOP, STOP)},
        "preempted": {"held-0": "InClusterQueue"},
    },
    "a resource that no group covers": {
        "gpus": 1,
        "resource": "amd.com/gpu",
        "reason": "NoMatchingFlavor",
        "message": "couldn't assign flavors to pod set main: resource amd.com/gpu unavailable in "
        "ClusterQueue",
    },
    "nothing of a resource that no group covers": {"gpus": 0, "resource": "amd.com/gpu", "flavor": ""},
}


@pytest.mark.parametrize("name", CASES)
def test_flavors(name: str) -> None:
    case = CASES[name]
    given = setup(queue("q", SPOT, **case.get("policy", {})), flavors=case.get("flavors", FLAVORS))
    held = [
        running(f"held-{place}", "q", gpus, flavor=flavor, priority=priority)
        for place, (flavor, gpus, priority) in enumerate(case.get("held", []))
    ]
    pods = PodSet(requests={case.get("resource", GPU): case["gpus"]}, **case.get("pods", {}))
    engine, changes = one_cycle(given, *held, Workload("ns", "new", "q", (pods,), uid="new"))
    item = engine.items["ns/new"]
    if "flavor" in case:
        assert item.admission is not None
        assert item.admission.flavors()["main"].get(GPU, "") == case["flavor"]
    elif "preempted" in case:
        gone = {change.workload[3:]: change.reason for change in changes if change.event == "Preempted"}
        assert gone == case["preempted"]
    else:
        assert (item.reason, item.message) == (case["reason"], case["message"])


def test_one_flavor_serves_all_resources_of_a_group() -> None:
    big = ResourceGroup(
        ("cpu", GPU),
        (
            FlavorQuotas("one", {"cpu": Quota(1000), GPU: Quota(8)}),
            FlavorQuotas("two", {"cpu": Quota(9000), GPU: Quota(8)}),
        ),
    )
    pods = PodSet(count=2, requests={"cpu": 1000, GPU: 1})
    engine, _ = one_cycle(setup(ClusterQueue("q", (big,))), Workload("ns", "new", "q", (pods,)))
    admission = engine.items["ns/new"].admission
    assert admission is not None
    assert admission.flavors() == {"main": {"cpu": "two", GPU: "two"}}


def test_pods_count_where_the_queue_covers_them() -> None:
    both = ResourceGroup((GPU, "pods"), (FlavorQuotas("h100", {GPU: Quota(8), "pods": Quota(5)}),))
    engine, _ = one_cycle(setup(ClusterQueue("q", (both,))), job("six", "q", 1, count=6))
    assert engine.items["ns/six"].reason == "ExceedsMaxQuota"


def test_fewer_pods_where_the_full_number_does_not_fit() -> None:
    engine, _ = one_cycle(
        setup(queue("q", 8)), running("held", "q", 3), job("new", "q", 1, count=8, min_count=2)
    )
    admission = engine.items["ns/new"].admission
    assert admission is not None
    assert admission.pod_sets[0].count == 5


@pytest.mark.parametrize(("asked", "config"), [(0, Config()), (1, Config(ignore_undeclared=True))])
def test_pods_that_ask_for_nothing_of_a_quota_leave_the_others_theirs(asked: int, config: Config) -> None:
    pod_sets = (PodSet("main", requests={"example.com/fpga": asked}), PodSet("more", requests={GPU: 1}))
    engine, _ = one_cycle(setup(queue("q", 4), config=config), Workload("ns", "new", "q", pod_sets))
    admission = engine.items["ns/new"].admission
    assert admission is not None
    assert admission.flavors() == {"main": {}, "more": {GPU: "h100"}}


def test_the_search_ends_with_the_first_pods_that_get_no_flavor() -> None:
    tainted = {"h100": ResourceFlavor("h100", taints=(Taint("spot", "yes", "NoSchedule"),))}
    pod_sets = (PodSet("main", requests={GPU: 0}), PodSet("more", requests={GPU: 1}))
    engine, _ = one_cycle(setup(queue("q", 4), flavors=tainted), Workload("ns", "new", "q", pod_sets))
    assert "more" not in engine.items["ns/new"].message


def test_of_two_groups_the_one_that_kueue_takes_first_is_told() -> None:
    groups = (*group({"x86": 1}, "cpu"), *group({"h100": 1}, GPU))
    pods = PodSet(requests={"cpu": 9000, GPU: 9})
    engine, _ = one_cycle(setup(ClusterQueue("q", groups)), Workload("ns", "new", "q", (pods,)))
    assert f"insufficient quota for {GPU}" in engine.items["ns/new"].message


def test_after_another_was_admitted_the_search_begins_anew() -> None:
    """For Kueue's memory an admission is as quota that came free (cache/scheduler/clusterqueue.go)."""
    groups = (*group({"h100": 4}), *group({"x86": 2000, "arm": 2000}, "cpu"))
    waits = Workload("ns", "waits", "q", (PodSet(requests={"cpu": 1000, GPU: 1}),))
    engine, _ = one_cycle(setup(ClusterQueue("q", groups)), running("held", "q", 4), waits)
    engine.submit(Workload("ns", "urgent", "q", (PodSet(requests={"cpu": 1000}),), priority=1), 100.0)
    for _ in range(2):
        engine.cycle(100.0)
    assert engine.items["ns/urgent"].state == "Admitted"
    tried = engine.items["ns/waits"].tried
    assert tried is not None
    assert tried.first(0, "cpu") == 1  # it stopped at the first flavor again
