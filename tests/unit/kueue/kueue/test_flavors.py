"""Kueue's cases of the search for flavors: what is used, and what preemption could do."""

from __future__ import annotations

from typing import Any

import pytest

from kueue.flavors import Assignment, Finder, Mode, preferred
from kueue.item import Item
from kueue.model import FINAL_SHARE, INITIAL_SHARE, Config, FlavorResource, Fungibility
from kueue.quantity import amount
from kueue.tree import Tree
from tests.unit.kueue.kueue import tables

TABLE = tables.table("flavors")
CASES = TABLE["cases"]


def assign(case: dict[str, Any]) -> Assignment:
    """Search in the first of the queues."""
    config = Config(strategies=(FINAL_SHARE, INITIAL_SHARE) if case.get("fair") else None)
    chosen = tables.setup(TABLE["common"], case, namespaces={}, config=config)
    tree = Tree(chosen.cluster_queues.values(), chosen.cohorts.values())
    for name, used in case.get("used", {}).items():
        tree.queues[name].add_all(tables.usage(used))
    queue = chosen.cluster_queues[case["queues"][0]["name"]]
    oracle = case.get("oracle", {})

    def possible(place: FlavorResource, _: int) -> tuple[Mode, int]:
        mode, borrowing = oracle.get(place.flavor, {}).get(place.resource, ("PREEMPT", 0))
        return Mode[mode], borrowing

    item = Item(tables.workload({"job": "ns/w", "pods": case["pods"]}))
    return Finder(chosen, queue, tree.queues[queue.name], item, possible, 0, 0).find()


@pytest.mark.parametrize("name", CASES)
def test_flavors_are_found_as_kueue_finds_them(name: str) -> None:
    case, after = CASES[name], CASES[name]["after"]
    assignment = assign(case)
    if "mode" in after:
        assert assignment.mode == Mode[after["mode"]]
    if "choice" in after:
        assert assignment.pod_sets[0].flavors == after["choice"]
    if "reason" in after:
        assert assignment.reason == after["reason"]
    if "pods" in after:
        assert assignment.borrowing == after.get("borrowing", 0)
        assert assignment.usage == tables.usage(after.get("usage", {}))
        assert [pods_of(assignment, number) for number in range(len(assignment.pod_sets))] == [
            wanted(pod) for pod in after["pods"]
        ]


def pods_of(assignment: Assignment, number: int) -> Any:
    """One pod set of what was found."""
    pod_set = assignment.pod_sets[number]
    tried = assignment.tried.places[number] if assignment.tried is not None else {}
    flavors = {
        resource: (flavor, coarse(pod_set.modes[resource]), tried[resource])
        for resource, flavor in pod_set.flavors.items()
    }
    return pod_set.name, pod_set.count, flavors, dict(pod_set.requests), sorted(pod_set.reasons)


def coarse(mode: Mode) -> Mode:
    """The mode as Kueue's tables have it: all that needs a preemption is one."""
    return Mode.PREEMPT if Mode.NO_FIT < mode < Mode.FIT else mode


def wanted(data: dict[str, Any]) -> Any:
    """The same as Kueue has it."""
    flavors = {
        resource: (flavor, Mode[mode], place)
        for resource, (flavor, mode, place) in data.get("flavors", {}).items()
    }
    asks = {resource: amount(resource, str(asked)) for resource, asked in data.get("asks", {}).items()}
    return data.get("name", "main"), data.get("count", 1), flavors, asks, sorted(data.get("reasons", ()))


@pytest.mark.parametrize(("a", "b", "preference", "better"), TABLE["preferred"])
def test_of_two_grades_the_one_is_better_that_kueue_prefers(
    a: tuple[str, int], b: tuple[str, int], preference: str, better: bool
) -> None:
    grades = [(Mode[mode], level) for mode, level in (a, b)]
    assert preferred(grades[0], grades[1], Fungibility(preference=preference)) is better
