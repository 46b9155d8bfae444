"""Kueue's cases of the search for flavors, restated: what is used, and what preemption could do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lab.queue.flavors import Assignment, Finder, Mode
from lab.queue.item import Item
from lab.queue.model import (
    ClusterQueue,
    Cohort,
    Config,
    FlavorQuotas,
    FlavorResource,
    Fungibility,
    PodSet,
    Preemption,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Setup,
    Workload,
)
from lab.queue.tree import Tree

STOP, TRY = "MayStopSearch", "TryNextFlavor"
LOWER = Preemption("LowerPriority", "LowerPriority")
BORROWER = Preemption(reclaim="LowerPriority", borrow="LowerPriority")
FAIR = Config(strategies=("LessThanOrEqualToFinalShare",))

Amounts = int | tuple[int, int | None] | tuple[int, int | None, int | None]
Groups = list[dict[str, dict[str, Amounts]]]

THREE: Groups = [{name: {"gpu": 10, "compute": 10} for name in ("uno", "due", "tre")}]
NONE: Groups = [{name: {"gpu": 0, "compute": 0} for name in ("uno", "due", "tre")}]
LEVELS: Groups = [{name: {"c": 0} for name in ("one", "two", "three")}]
TEN: Groups = [{"one": {"c": 10, "pods": 10}, "two": {"c": 10, "pods": 10}}]

CASES: dict[str, dict[str, Any]] = {
    "one flavor, fits": {"has": [{"one": {"c": 2}}], "asks": {"c": 1}, "gets": {"c": "one"}},
    "used up, and nobody to preempt": {
        "has": [{"one": {"c": 4}}],
        "used": {("one", "c"): 3},
        "asks": {"c": 2},
        "oracle": {("one", "c"): (Mode.NO_CANDIDATES, 0)},
        "mode": Mode.PREEMPT,
        "gets": {"c": "one"},
        "message": "insufficient unused quota for c in flavor one, 1 more needed",
    },
    "a flavor for each group": {
        "has": [{"one": {"c": 2}, "two": {"c": 4}}, {"b_one": {"m": 1024}, "b_two": {"m": 5}}],
        "asks": {"c": 3, "m": 10},
        "gets": {"c": "two", "m": "b_one"},
    },
    "one group needs a preemption, the other has no room at all": {
        "has": [{"one": {"c": 3}}, {"b_one": {"m": 1}}],
        "used": {("one", "c"): 1},
        "asks": {"c": 3, "m": 10},
        "mode": Mode.NO_FIT,
        "gets": {},
        "reason": "ExceedsMaxQuota",
        "message": "insufficient quota for m in flavor b_one, previously considered podsets requests (0) + "
        "current podset request (10) > maximum capacity (1)",
    },
    "resources of a group decide together": {
        "has": [{"one": {"c": 4, "m": 1}, "two": {"c": 4, "m": 15}}],
        "asks": {"c": 3, "m": 10},
        "gets": {"c": "two", "m": "two"},
    },
    "none holds both": {
        "has": [{"one": {"c": 2, "m": 1024}, "two": {"c": 4, "m": 1}}],
        "asks": {"c": 3, "m": 10},
        "mode": Mode.NO_FIT,
        "gets": {},
        "reason": "ExceedsMaxQuota",
    },
    "more than may be borrowed of what is not lent": {
        "has": [{"one": {"c": 1}}],
        "other": [{"one": {"c": (10, None, 0)}}],
        "other_used": {("one", "c"): 9},
        "asks": {"c": 2},
        "mode": Mode.NO_FIT,
        "gets": {},
        "reason": "ExceedsMaxQuota",
        "message": "insufficient quota for c in flavor one, previously considered podsets requests (0) + "
        "current podset request (2) > maximum capacity (1)",
    },
    "past the limit, but somebody can be preempted": {
        "has": [{"one": {"c": (2, 8)}}],
        "used": {("one", "c"): 9},
        "other": [{"one": {"c": 98}}],
        "other_used": {("one", "c"): 9},
        "asks": {"c": 2},
        "oracle": {("one", "c"): (Mode.PREEMPT, 1)},
        "mode": Mode.PREEMPT,
        "gets": {"c": "one"},
        "borrowing": 1,
        "message": "insufficient unused quota for c in flavor one, 1 more needed",
    },
    "past the nominal quota without a cohort": {
        "has": [{"one": {"c": 2}}],
        "used": {("one", "c"): 1},
        "asks": {"c": 2},
        "mode": Mode.PREEMPT,
        "gets": {"c": "one"},
        "message": "insufficient unused quota for c in flavor one, 1 more needed",
    },
    "what the cohort uses can be preempted": {
        "has": [{"one": {"c": 3}}],
        "used": {("one", "c"): 2},
        "other": [{"one": {"c": 7}}],
        "other_used": {("one", "c"): 8},
        "asks": {"c": 2},
        "mode": Mode.PREEMPT,
        "gets": {"c": "one"},
        "message": "insufficient unused quota for c in flavor one, 2 more needed",
    },
    "pods are counted": {
        "has": [{"one": {"c": 10, "pods": 3}}],
        "count": 3,
        "asks": {"c": 1},
        "gets": {"c": "one", "pods": "one"},
    },
    "too many pods": {
        "has": [{"one": {"c": 10, "pods": 2}}],
        "count": 3,
        "asks": {"c": 1},
        "mode": Mode.NO_FIT,
        "gets": {},
        "reason": "ExceedsMaxQuota",
        "message": "insufficient quota for pods in flavor one, previously considered podsets requests (0) + "
        "current podset request (3) > maximum capacity (2)",
    },
    "nothing asked of an uncovered resource": {
        "has": [{"one": {"c": 4}}],
        "asks": {"c": 2, "gpu": 0},
        "gets": {"c": "one"},
    },
    "nothing asked of a covered one gets a flavor": {
        "has": [{"one": {"c": 4, "gpu": 0}}],
        "asks": {"c": 2, "gpu": 0},
        "gets": {"c": "one", "gpu": "one"},
    },
    "an uncovered resource": {
        "has": [{"one": {"c": 4}}],
        "asks": {"gpu": 2},
        "mode": Mode.NO_FIT,
        "gets": {},
        "reason": "NoMatchingFlavor",
        "message": "resource gpu unavailable in ClusterQueue",
    },
    "a flavor that is not there": {
        "has": [{"gone": {"c": 4}}],
        "asks": {"c": 1},
        "mode": Mode.NO_FIT,
        "gets": {},
        "reason": "NoMatchingFlavor",
        "message": "flavor gone not found",
    },
    "past a flavor that is not there": {
        "has": [{"gone": {"c": 4}, "two": {"c": 4}}],
        "asks": {"c": 3},
        "gets": {"c": "two"},
    },
    # Where the search stops
    "preempt before the next flavor": {
        "has": TEN,
        "used": {("one", "c"): 2},
        "asks": {"c": 9},
        "on": (STOP, STOP),
        "mode": Mode.PREEMPT,
        "gets": {"c": "one", "pods": "one"},
        "last": 0,
        "message": "insufficient unused quota for c in flavor one, 1 more needed",
    },
    "the next flavor before preemption": {
        "has": TEN,
        "used": {("one", "c"): 2},
        "asks": {"c": 9},
        "gets": {"c": "two", "pods": "two"},
        "last": -1,
    },
    "borrow where the next flavor is too small": {
        "has": [{"one": {"c": (10, 1), "pods": 10}, "two": {"c": 1, "pods": 10}}],
        "used": {("one", "c"): 2},
        "other": [{"one": {"c": 1}}],
        "asks": {"c": 9},
        "on": (TRY, TRY),
        "gets": {"c": "one", "pods": "one"},
        "borrowing": 1,
    },
    "the next flavor before borrowing": {
        "has": [{"one": {"c": (10, 1), "pods": 10}, "two": {"c": 10, "pods": 10}}],
        "used": {("one", "c"): 2},
        "other": [{"one": {"c": 1}}],
        "asks": {"c": 9},
        "on": (TRY, TRY),
        "gets": {"c": "two", "pods": "two"},
    },
    "borrow before the next flavor": {
        "has": [{"one": {"c": (10, 1), "pods": 10}, "two": {"c": 10, "pods": 10}}],
        "used": {("one", "c"): 2},
        "other": [{"one": {"c": 1}}],
        "asks": {"c": 9},
        "gets": {"c": "one", "pods": "one"},
        "borrowing": 1,
        "last": 0,
    },
    "borrow by preemption before the next flavor": {
        "has": [{"one": {"c": (0, 12)}, "two": {"c": 12}}],
        "other": [{"one": {"c": 12}}],
        "other_used": {("one", "c"): 10},
        "policy": BORROWER,
        "asks": {"c": 12},
        "on": (STOP, STOP),
        "oracle": {("one", "c"): (Mode.PREEMPT, 1)},
        "mode": Mode.PREEMPT,
        "gets": {"c": "one"},
        "borrowing": 1,
        "last": 0,
        "message": "insufficient unused quota for c in flavor one, 10 more needed",
    },
    "the same without a limit on borrowing": {
        "has": [{"one": {"c": 0}, "two": {"c": 12}}],
        "other": [{"one": {"c": 12}}],
        "other_used": {("one", "c"): 10},
        "policy": BORROWER,
        "asks": {"c": 12},
        "on": (STOP, STOP),
        "oracle": {("one", "c"): (Mode.PREEMPT, 1)},
        "mode": Mode.PREEMPT,
        "gets": {"c": "one"},
        "borrowing": 1,
        "last": 0,
    },
    "no borrowing where the next flavor holds it": {
        "has": [{"one": {"c": (0, 12)}, "two": {"c": 12}}],
        "other": [{"one": {"c": 12}}],
        "policy": BORROWER,
        "asks": {"c": 12},
        "on": (TRY, STOP),
        "gets": {"c": "two"},
    },
    "a limit on borrowing beyond what the cohort has": {
        "has": [{"one": {"c": (0, 12)}}],
        "other": [{"one": {"c": 11}}],
        "other_used": {("one", "c"): 10},
        "policy": BORROWER,
        "asks": {"c": 12},
        "mode": Mode.NO_FIT,
        "gets": {},
        "reason": "ExceedsMaxQuota",
        "message": "insufficient quota for c in flavor one, previously considered podsets requests (0) + "
        "current podset request (12) > maximum capacity (11)",
    },
    "the first flavor is lent, the second fits": {
        "has": [{"one": {"c": (10, None, 1), "pods": 10}, "two": {"c": (10, None, 0), "pods": 10}}],
        "used": {("one", "c"): 2},
        "other": [{"one": {"c": (1, None, 1)}}],
        "asks": {"c": 9},
        "on": (TRY, TRY),
        "gets": {"c": "two", "pods": "two"},
    },
    "the first is lent, the second too small": {
        "has": [{"one": {"c": (10, None, 1), "pods": 10}, "two": {"c": (1, None, 0), "pods": 10}}],
        "used": {("one", "c"): 2},
        "other": [{"one": {"c": (1, None, 1)}}],
        "asks": {"c": 9},
        "on": (TRY, TRY),
        "gets": {"c": "one", "pods": "one"},
        "borrowing": 1,
    },
    "past a flavor without anybody to preempt": {
        "has": [{"one": {"c": (0, 10)}, "two": {"c": (0, 10)}}],
        "other": [{"one": {"c": 10}, "two": {"c": 10}}],
        "other_used": {("one", "c"): 9},
        "policy": BORROWER,
        "asks": {"c": 2},
        "on": (STOP, STOP),
        "oracle": {("one", "c"): (Mode.NO_CANDIDATES, 0)},
        "gets": {"c": "two"},
        "borrowing": 1,
    },
    "fair sharing may preempt while borrowing": {
        "has": [{"one": {"c": (0, 12)}, "two": {"c": 12}}],
        "other": [{"one": {"c": 12}}],
        "other_used": {("one", "c"): 10},
        "policy": Preemption(reclaim="Any"),
        "config": FAIR,
        "asks": {"c": 12},
        "on": (STOP, STOP),
        "oracle": {("one", "c"): (Mode.PREEMPT, 1)},
        "mode": Mode.PREEMPT,
        "gets": {"c": "one"},
        "borrowing": 1,
    },
    "but not where nothing is reclaimed": {
        "has": [{"one": {"c": (0, 12)}, "two": {"c": 12}}],
        "other": [{"one": {"c": 12}}],
        "other_used": {("one", "c"): 10},
        "config": FAIR,
        "asks": {"c": 12},
        "on": (STOP, STOP),
        "gets": {"c": "two"},
    },
    # Reclaiming before preempting by priority
    "the flavor that fits": {
        "has": THREE,
        "other": NONE,
        "policy": LOWER,
        "used": {("uno", "gpu"): 1},
        "other_used": {("due", "gpu"): 1},
        "asks": {"gpu": 10},
        "gets": {"gpu": "tre"},
    },
    "the flavor that can be reclaimed": {
        "has": THREE,
        "other": NONE,
        "policy": LOWER,
        "used": {("uno", "gpu"): 1},
        "other_used": {("due", "gpu"): 1, ("tre", "gpu"): 1},
        "asks": {"gpu": 10},
        "oracle": {("uno", "gpu"): (Mode.PREEMPT, 0), ("due", "gpu"): (Mode.RECLAIM, 0)},
        "mode": Mode.PREEMPT,
        "gets": {"gpu": "due"},
    },
    "the first where the search may stop": {
        "has": THREE,
        "other": NONE,
        "policy": LOWER,
        "on": (STOP, STOP),
        "used": {("uno", "gpu"): 1},
        "other_used": {("due", "gpu"): 1, ("tre", "gpu"): 1},
        "asks": {"gpu": 10},
        "mode": Mode.PREEMPT,
        "gets": {"gpu": "uno"},
    },
    "the first of equals": {
        "has": THREE,
        "other": NONE,
        "policy": LOWER,
        "used": {("uno", "gpu"): 1, ("due", "gpu"): 1, ("tre", "gpu"): 1},
        "asks": {"gpu": 10},
        "mode": Mode.PREEMPT,
        "gets": {"gpu": "uno"},
    },
    "the one whose other resource fits": {
        "has": THREE,
        "other": NONE,
        "policy": LOWER,
        "used": {("uno", "gpu"): 1, ("uno", "compute"): 1, ("due", "compute"): 1},
        "other_used": {("due", "gpu"): 1, ("tre", "gpu"): 1},
        "asks": {"gpu": 10, "compute": 10},
        "oracle": {
            ("uno", "gpu"): (Mode.PREEMPT, 0),
            ("due", "gpu"): (Mode.RECLAIM, 0),
            ("tre", "gpu"): (Mode.RECLAIM, 0),
        },
        "mode": Mode.PREEMPT,
        "gets": {"gpu": "tre", "compute": "tre"},
    },
    # Three levels of cohorts, each with a flavor of its own
    "from the top": {
        "levels": True,
        "has": LEVELS,
        "other": LEVELS,
        "policy": LOWER,
        "used": {("one", "c"): 4},
        "other_used": {("two", "c"): 4},
        "asks": {"c": 4},
        "gets": {"c": "three"},
        "borrowing": 3,
    },
    "from the level below": {
        "levels": True,
        "has": LEVELS,
        "other": LEVELS,
        "policy": LOWER,
        "used": {("one", "c"): 4},
        "asks": {"c": 4},
        "gets": {"c": "two"},
        "borrowing": 2,
    },
    "farther, where nearer there is nobody to preempt": {
        "levels": True,
        "has": [{"one": {"c": (4, 0)}, "two": {"c": 0}, "three": {"c": 0}}],
        "other": LEVELS,
        "policy": LOWER,
        "preference": "PreemptionOverBorrowing",
        "on": (TRY, TRY),
        "used": {("one", "c"): 4},
        "asks": {"c": 4},
        "oracle": {("one", "c"): (Mode.NO_CANDIDATES, 1)},
        "gets": {"c": "two"},
        "borrowing": 2,
    },
}


def groups(given: Groups) -> tuple[ResourceGroup, ...]:
    found = []
    for group in given:
        flavors = [
            FlavorQuotas(
                name,
                {
                    resource: Quota(each) if isinstance(each, int) else Quota(*each)
                    for resource, each in quotas.items()
                },
            )
            for name, quotas in group.items()
        ]
        found.append(ResourceGroup(tuple(flavors[0].quotas), tuple(flavors)))
    return tuple(found)


def assign(case: Mapping[str, Any]) -> Assignment:
    """Search in a queue beside another one."""
    borrow, preempt = case.get("on", (STOP, TRY))
    fungibility = Fungibility(borrow, preempt, case.get("preference", ""))
    levels = "levels" in case
    parents = ("one", "two") if levels else ("all", "all")
    alone = "other" not in case
    queue = ClusterQueue(
        "q",
        groups(case["has"]),
        "" if alone else parents[0],
        fungibility=fungibility,
        preemption=case.get("policy", Preemption()),
    )
    queues = [queue]
    if not alone:
        queues.append(ClusterQueue("other", groups(case["other"]), parents[1]))
    cohorts = [
        Cohort(name, parent, groups([{name: {"c": 4}}]))
        for name, parent in (("one", "two"), ("two", "three"), ("three", ""))
        if levels
    ]
    tree = Tree(queues, cohorts)
    for name, used in (("q", "used"), ("other", "other_used")):
        for place, value in case.get(used, {}).items():
            tree.queues[name].add(FlavorResource(*place), value)
    names = {flavor.name for each in queues for group in each.groups for flavor in group.flavors} - {"gone"}
    setup = Setup(
        {each.name: each for each in queues},
        flavors={name: ResourceFlavor(name) for name in names},
        config=case.get("config", Config()),
    )
    oracle = case.get("oracle", {})
    item = Item(Workload("ns", "w", "q", (PodSet(count=case.get("count", 1), requests=case["asks"]),)))
    return Finder(
        setup,
        queue,
        tree.queues["q"],
        item,
        lambda place, value: oracle.get(tuple(place), (Mode.PREEMPT, 0)),
        0,
        0,
    ).find()


@pytest.mark.parametrize("name", CASES)
def test_flavors_as_kueue_finds_them(name: str) -> None:
    case = CASES[name]
    found = assign(case)
    assert found.mode == case.get("mode", Mode.FIT)
    assert found.pod_sets[0].flavors == case["gets"]
    assert found.borrowing == case.get("borrowing", 0)
    if "message" in case:
        assert found.message == f"couldn't assign flavors to pod set main: {case['message']}"
    if "reason" in case:
        assert found.reason == case["reason"]
    if "last" in case:
        assert found.tried is not None
        assert set(found.tried.places[0].values()) == {case["last"]}


def test_the_next_search_begins_after_the_last_flavor_tried() -> None:
    case = CASES["preempt before the next flavor"]
    first = assign(case)
    assert first.tried is not None
    assert first.tried.pending
    assert first.tried.first(0, "c") == 1
    assert not (assign(CASES["the next flavor before preemption"]).tried or first.tried).pending


def test_what_earlier_pod_sets_take_counts() -> None:
    queue = ClusterQueue("q", groups([{"one": {"c": 4}, "two": {"c": 10}}]))
    tree = Tree([queue], [])
    setup = Setup({"q": queue}, flavors={name: ResourceFlavor(name) for name in ("one", "two")})
    pods = tuple(PodSet(name, 1, {"c": asks}) for name, asks in (("driver", 3), ("worker", 3)))
    item = Item(Workload("ns", "w", "q", pods))
    found = Finder(setup, queue, tree.queues["q"], item, lambda *_: (Mode.NO_CANDIDATES, 0), 0, 0).find()
    assert [each.flavors for each in found.pod_sets] == [{"c": "one"}, {"c": "two"}]
    assert found.usage == {FlavorResource("one", "c"): 3, FlavorResource("two", "c"): 3}
