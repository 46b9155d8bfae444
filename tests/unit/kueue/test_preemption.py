"""Who is preempted for whom: policies, hierarchy, order of candidates, fair shares."""

from __future__ import annotations

from typing import Any

import pytest

from kueue.model import (
    FINAL_SHARE,
    INITIAL_SHARE,
    Config,
    FlavorResource,
    Fungibility,
    PodSet,
    PreemptionPolicy,
    Workload,
)
from tests.unit.kueue.made import FLAVOR, GPU, cohort, job, one_cycle, queue, reasons_of, running, setup

ANY = PreemptionPolicy(reclaim="Any")
LOWER = PreemptionPolicy(within="LowerPriority")
NEWER = PreemptionPolicy(within="LowerOrNewerEqualPriority")
BORROW = PreemptionPolicy(reclaim="LowerPriority", borrow="LowerPriority")
FAIR = Config(strategies=(FINAL_SHARE, INITIAL_SHARE))


def pair(a: PreemptionPolicy = ANY, b: PreemptionPolicy = ANY, nominal: int = 4, **rest: Any) -> list[Any]:
    """Two queues of one cohort."""
    return [queue("a", nominal, "all", preemption=a, **rest), queue("b", nominal, "all", preemption=b)]


CASES: dict[str, dict[str, Any]] = {
    # In the own queue
    "nobody without a policy": {
        "queues": [queue("a", 4)],
        "held": [running("low", "a", 4, priority=-1)],
        "new": job("new", "a", 1),
        "gone": {},
    },
    "a lower priority": {
        "queues": [queue("a", 4, preemption=LOWER)],
        "held": [running("low", "a", 4, priority=-1)],
        "new": job("new", "a", 1),
        "gone": {"low": "InClusterQueue"},
    },
    "not the same priority": {
        "queues": [queue("a", 4, preemption=LOWER)],
        "held": [running("same", "a", 4)],
        "new": job("new", "a", 1),
        "gone": {},
    },
    "the same priority where it came later": {
        "queues": [queue("a", 4, preemption=NEWER)],
        "held": [running("older", "a", 2, created=1.0), running("newer", "a", 2, created=9.0)],
        "new": job("new", "a", 2, created=5.0),
        "gone": {"newer": "InClusterQueue"},
    },
    "the lowest priority first": {
        "queues": [queue("a", 4, preemption=LOWER)],
        "held": [running("mid", "a", 2, priority=1), running("low", "a", 2)],
        "new": job("new", "a", 2, priority=5),
        "gone": {"low": "InClusterQueue"},
    },
    "of one priority the one that began last": {
        "queues": [queue("a", 4, preemption=LOWER)],
        "held": [running("first", "a", 2, at=1), running("last", "a", 2, at=2)],
        "new": job("new", "a", 2, priority=5),
        "gone": {"last": "InClusterQueue"},
    },
    "put back who need not go": {
        "queues": [queue("a", 6, preemption=LOWER)],
        "held": [
            running("small", "a", 1, priority=0),
            running("middle", "a", 2, priority=1),
            running("large", "a", 3, priority=2),
        ],
        "new": job("new", "a", 3, priority=5),
        "gone": {"small": "InClusterQueue", "middle": "InClusterQueue"},
    },
    "the large one alone is enough": {
        "queues": [queue("a", 6, preemption=LOWER)],
        "held": [running("small", "a", 1, priority=0), running("large", "a", 5, priority=2)],
        "new": job("new", "a", 5, priority=5),
        "gone": {"large": "InClusterQueue"},
    },
    "all or nothing": {
        "queues": [queue("a", 4, preemption=LOWER)],
        "held": [running("low", "a", 1, priority=-1), running("high", "a", 3, priority=9)],
        "new": job("new", "a", 3),
        "gone": {},
    },
    "nobody who holds another flavor": {
        "queues": [
            queue("a", {"h100": 2, "a100": 0}, preemption=LOWER, fungibility=Fungibility()),
        ],
        "held": [running("low", "a", 2, priority=-1)],
        "new": job("new", "a", 2),
        "gone": {"low": "InClusterQueue"},
    },
    # In the cohort
    "what was lent comes back": {
        "queues": pair(),
        "held": [running("own", "b", 4, at=1), running("borrowed", "b", 4, at=2)],
        "new": job("new", "a", 4),
        "gone": {"borrowed": "InCohortReclamation"},
    },
    "whatever the priority": {
        "queues": pair(),
        "held": [running("own", "b", 4, at=1), running("borrowed", "b", 4, at=2, priority=99)],
        "new": job("new", "a", 4),
        "gone": {"own": "InCohortReclamation"},
    },
    "nobody in a queue that admits nothing": {  # Kueue's snapshot is without it (cache/scheduler/snapshot.go)
        "queues": [queue("a", 4, "all", preemption=ANY), queue("b", 4, "all", stop="Hold")],
        "held": [running("own", "b", 4, at=1), running("borrowed", "b", 4, at=2)],
        "new": job("new", "a", 4),
        "gone": {},
    },
    "also for pods of which there are none": {  # their flavor, of which too much is used, takes no part
        "queues": [
            queue("a", {"a100": 0, "h100": 4}, "all", preemption=ANY, fungibility=Fungibility()),
            queue("b", {"h100": 4}, "all"),
        ],
        "held": [
            running("over", "a", 2, flavor="a100"),
            running("own", "b", 6, at=1, priority=9),
            running("borrowed", "b", 2, at=2),
        ],
        "new": Workload(
            "ns",
            "new",
            "a",
            (PodSet("main", requests={GPU: 1}), PodSet("none", count=0, requests={GPU: 1})),
            uid="new",
        ),
        "gone": {"borrowed": "InCohortReclamation"},
    },
    "of lower priority only, where the policy says so": {
        "queues": pair(PreemptionPolicy(reclaim="LowerPriority")),
        "held": [running("one", "b", 4, priority=1), running("two", "b", 4, priority=1)],
        "new": job("new", "a", 4),
        "gone": {},
    },
    "nobody who is within the quota": {
        "queues": [*pair(PreemptionPolicy(within="LowerPriority", reclaim="Any")), queue("c", 4, "all")],
        "held": [running("own", "b", 4), running("lent", "c", 8, priority=5)],
        "new": job("new", "a", 4, priority=9),
        "gone": {"lent": "InCohortReclamation"},
    },
    "no more than what was borrowed": {
        "queues": pair(),
        "held": [running(f"b{place}", "b", 1, at=place) for place in range(8)],
        "new": job("new", "a", 4),
        "gone": {f"b{place}": "InCohortReclamation" for place in range(4, 8)},
    },
    "not to borrow": {
        "queues": pair(),
        "held": [running("own", "a", 4), running("other", "b", 4)],
        "new": job("new", "a", 1),
        "gone": {},
    },
    "to borrow, where that is allowed and priorities are lower": {
        "queues": [*pair(BORROW), queue("c", 4, "all")],
        "held": [running("own", "a", 4), running("b1", "b", 4), running("b2", "b", 4, at=1)],
        "new": job("new", "a", 1, priority=1),
        "gone": {"b2": "InCohortReclaimWhileBorrowing"},
    },
    "not those above the threshold": {
        "queues": [
            *pair(PreemptionPolicy(reclaim="LowerPriority", borrow="LowerPriority", threshold=0)),
            queue("c", 4, "all"),
        ],
        "held": [running("own", "a", 4), running("b1", "b", 8, priority=1)],
        "new": job("new", "a", 1, priority=2),
        "gone": {},
    },
    "other queues before the own one": {
        "queues": pair(PreemptionPolicy(within="LowerPriority", reclaim="Any")),
        "held": [
            running("own", "a", 2, priority=-5),
            running("borrowed", "b", 2, at=1),
            running("b", "b", 4),
        ],
        "new": job("new", "a", 2),
        "gone": {"borrowed": "InCohortReclamation"},
    },
    "those on their way out before others": {
        "queues": [queue("a", 4, preemption=LOWER)],
        "held": [
            running("low", "a", 2, priority=-9),
            running("leaving", "a", 2, priority=-1, evicted="Preempted", evicted_at=5.0),
        ],
        "new": job("new", "a", 2),
        "gone": {},
        "reason": "WaitingForPreemptedWorkloads",
    },
    # Hierarchy
    "an advantage in the own department, whatever the priority": {
        "queues": [
            queue("x", 0, "near", preemption=PreemptionPolicy(reclaim="Any")),
            queue("y", 0, "far"),
        ],
        "cohorts": [cohort("root"), cohort("near", "root", 4), cohort("far", "root", 0)],
        "held": [running("far", "y", 4, priority=9)],
        "new": job("new", "x", 4),
        "gone": {"far": "InCohortReclamation"},
    },
    "nobody in a department within its quota": {
        "queues": [
            queue("x", 0, "near", preemption=PreemptionPolicy(reclaim="Any")),
            queue("y", 0, "far"),
        ],
        "cohorts": [cohort("root"), cohort("near", "root", 4), cohort("far", "root", 4)],
        "held": [running("near", "x", 4), running("far", "y", 4)],
        "new": job("new", "x", 1),
        "gone": {},
    },
    # Fair sharing
    "fair: from the one that borrows most": {
        "config": FAIR,
        "queues": [*pair(nominal=3), queue("c", 3, "all")],
        "held": [
            *(running(f"b{place}", "b", 1, at=place) for place in range(5)),
            *(running(f"c{place}", "c", 1, at=place) for place in range(4)),
        ],
        "new": job("new", "a", 1),
        "gone": {"b4": "InCohortReclamation"},
    },
    "fair: borrow until the shares are even": {
        "config": FAIR,
        "queues": [*pair(nominal=0), queue("c", 6, "all")],
        "held": [*(running(f"b{place}", "b", 1, at=place) for place in range(6))],
        "new": job("new", "a", 3),
        "gone": {f"b{place}": "InCohortFairSharing" for place in (3, 4, 5)},
    },
    "fair: not beyond that": {
        "config": FAIR,
        "queues": [*pair(nominal=0), queue("c", 6, "all")],
        "held": [
            *(running(f"a{place}", "a", 1, at=place) for place in range(3)),
            *(running(f"b{place}", "b", 1, at=place) for place in range(3)),
        ],
        "new": job("new", "a", 1),
        "gone": {},
    },
    "fair: the second rule looks at the share before": {
        "config": FAIR,
        "queues": [*pair(nominal=0), queue("c", 6, "all")],
        "held": [running("large", "b", 6)],
        "new": job("new", "a", 5),
        "gone": {"large": "InCohortFairSharing"},
    },
    "fair: not with the first rule alone": {
        "config": Config(strategies=(FINAL_SHARE,)),
        "queues": [*pair(nominal=0), queue("c", 6, "all")],
        "held": [running("large", "b", 6)],
        "new": job("new", "a", 5),
        "gone": {},
    },
    "fair: a heavy team may have more": {
        "config": FAIR,
        "queues": [*pair(nominal=0, weight=2.0), queue("c", 6, "all")],
        "held": [
            *(running(f"a{place}", "a", 1, at=place) for place in range(3)),
            *(running(f"b{place}", "b", 1, at=place) for place in range(3)),
        ],
        "new": job("new", "a", 1),
        "gone": {"b2": "InCohortFairSharing"},
    },
    "fair: weight 0 never takes from one that has a share": {
        "config": FAIR,
        "queues": [*pair(nominal=0, weight=0.0), queue("c", 6, "all")],
        "held": [running("b", "b", 6)],
        "new": job("new", "a", 1),
        "gone": {},
    },
    "fair: the own queue by priority": {
        "config": FAIR,
        "queues": [*pair(PreemptionPolicy(within="LowerPriority", reclaim="Any"))],
        "held": [running("low", "a", 4, priority=-1), running("b", "b", 4)],
        "new": job("new", "a", 2),
        "gone": {"low": "InClusterQueue"},
    },
}


@pytest.mark.parametrize("name", CASES)
def test_victims(name: str) -> None:
    case = CASES[name]
    given = setup(*case["queues"], cohorts=case.get("cohorts", ()), config=case.get("config", Config()))
    engine, changes = one_cycle(given, *case["held"], case["new"])
    assert reasons_of(changes, "Preempted") == case["gone"]
    assert reasons_of(changes, "Admitted") == {}
    waits = case.get("reason", "WaitingForPreemptedWorkloads" if case["gone"] else "WaitingForQuota")
    assert engine.items["ns/new"].reason == waits


def test_the_message_names_the_cause_and_both_places() -> None:
    given = setup(*pair())
    _, changes = one_cycle(given, running("b", "b", 8), job("new", "a", 4))
    (message,) = [change.message for change in changes if change.event == "Preempted"]
    assert message == (
        "Preempted to accommodate a workload (UID: new, JobUID: UNKNOWN) due to reclamation within the cohort"
        "; preemptor path: /all/a; preemptee path: /all/b"
    )


def test_two_that_want_the_same_victim_do_not_both_count_on_it() -> None:
    queues = [queue(name, 4, "all", preemption=ANY) for name in ("a", "b")] + [queue("c", 0, "all")]
    held = [running("big", "c", 8)]
    engine, changes = one_cycle(
        setup(*queues), *held, job("one", "a", 4, created=1.0), job("two", "b", 4, created=2.0)
    )
    assert reasons_of(changes, "Preempted") == {"big": "InCohortReclamation"}
    assert engine.items["ns/two"].message == (
        "Workload has overlapping preemption targets with another workload, "
        "but will fit after these preemptions complete"
    )
    engine.release_evicted(100.0)
    assert reasons_of(engine.settle(100.0), "Admitted") == {"one": "Admitted", "two": "Admitted"}


def test_a_strict_head_that_nobody_makes_room_for_keeps_its_quota_from_borrowers() -> None:
    queues = [queue("a", 4, "all", strategy="StrictFIFO"), queue("b", 4, "all")]
    held = [running("a1", "a", 2), running("b1", "b", 4)]
    engine, changes = one_cycle(
        setup(*queues), *held, job("head", "a", 4, created=1.0), job("new", "b", 2, created=2.0)
    )
    assert reasons_of(changes, "Admitted") == {}
    assert engine.items["ns/new"].message == "Workload no longer fits after processing another workload"


def test_a_head_over_its_borrowing_limit_lowers_the_share_of_its_queue_for_the_cycle() -> None:
    """Kueue holds back less than nothing for it (scheduler.go: quotaResourcesToReserve)."""
    queues = [
        queue("over", (2, 2), "all"),
        queue(
            "none", 0, "all", preemption=PreemptionPolicy(within="LowerOrNewerEqualPriority", reclaim="Any")
        ),
        queue("own", 3, "all", preemption=ANY),
    ]
    given = setup(*queues, cohorts=[cohort("all", "", 2)], config=Config(strategies=(INITIAL_SHARE,)))
    held = [running("five", "over", 5, at=1), running("newer", "none", 5, at=1, created=9.0)]
    heads = [
        job("w", "over", 1, created=3.0),
        job("x", "none", 2, created=4.0),
        job("y", "own", 2, created=1.0),
    ]
    engine, changes = one_cycle(given, *held, *heads)
    assert reasons_of(changes, "Preempted") == {"newer": "InCohortReclamation"}
    assert engine.tree.cohorts["all"].usage == {FlavorResource(FLAVOR, GPU): 10}


def test_the_lower_share_goes_first_under_fair_sharing() -> None:
    queues = [queue("a", 0, "all"), queue("b", 0, "all"), queue("c", 4, "all")]
    given = setup(*queues, config=FAIR)
    _, changes = one_cycle(
        given, running("a0", "a", 2), job("again", "a", 2, created=1.0), job("first", "b", 2, created=2.0)
    )
    assert reasons_of(changes, "Admitted") == {"first": "Admitted"}
