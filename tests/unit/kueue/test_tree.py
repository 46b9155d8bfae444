"""Arithmetic of quotas: the worked examples, step by step."""

from __future__ import annotations

from typing import Any

import pytest

from kueue.model import FlavorResource
from kueue.shares import share
from kueue.tree import Tree
from tests.unit.kueue.made import FLAVOR, GPU, cohort, queue

PLACE = FlavorResource(FLAVOR, GPU)

EXAMPLES: dict[str, dict[str, Any]] = {
    "slack and two teams": {
        "queues": [queue("slack", 8, "all"), queue("blue", 8, "all"), queue("red", 8, "all")],
        "potential": {"slack": 24, "blue": 24, "red": 24},
        "steps": [
            (("blue", 20), {"slack": 4, "blue": 4, "red": 4}, {"blue": 500.0}),
            (("red", 4), {"slack": 0, "blue": 0, "red": 0}, {"red": 0.0}),
        ],
    },
    "borrowing limit": {
        "queues": [queue("a", (4, 2), "all"), queue("b", 4, "all")],
        "potential": {"a": 6, "b": 8},
        "steps": [
            (("b", 3), {"a": 5, "b": 5}, {}),
            (("a", 5), {"a": 0, "b": 0}, {"a": 125.0}),
        ],
    },
    "lending limit": {
        "queues": [queue("a", 4, "all"), queue("b", (4, None, 1), "all")],
        "potential": {"a": 5, "b": 8},
        "steps": [
            (("a", 5), {"a": 0, "b": 3}, {"a": 200.0}),
            (("b", 3), {"a": 0, "b": 0}, {}),
        ],
    },
    "departments": {
        "queues": [queue("x", 2, "dept1"), queue("y", 4, "dept2"), queue("z", (2, 0), "dept2")],
        "cohorts": [
            cohort("root", "", 2),
            cohort("dept1", "root", (1, 1)),
            cohort("dept2", "root", (0, None, 2)),
        ],
        "potential": {"x": 4, "y": 11, "z": 2},
        "steps": [
            (("y", 6), {"x": 4, "y": 5, "z": 2}, {"y": 2000 / 11, "dept2": 0.0}),
            (("x", 3), {"x": 1, "y": 2, "z": 2}, {"x": 250.0}),
        ],
    },
    "quota taken away": {
        "queues": [queue("a", 2, "all"), queue("b", 8, "all")],
        "potential": {"a": 10, "b": 10},
        "steps": [(("a", 8), {"a": 2, "b": 2}, {}), (("b", 6), {"a": -4, "b": -4}, {"a": 600.0})],
    },
    "weights": {
        "queues": [queue("a", 2, "all", weight=1.0), queue("b", 2, "all", weight=3.0)],
        "cohorts": [cohort("all", "", 4)],
        "potential": {"a": 8, "b": 8},
        "steps": [(("a", 4), {"a": 4}, {}), (("b", 4), {"a": 0}, {"a": 250.0, "b": 250 / 3})],
    },
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_examples(name: str) -> None:
    example = EXAMPLES[name]
    tree = Tree(example["queues"], example.get("cohorts", ()))
    nodes = {**tree.cohorts, **tree.queues}
    assert {name: nodes[name].potential(PLACE) for name in example["potential"]} == example["potential"]
    for (used_by, value), left, shares in example["steps"]:
        nodes[used_by].add(PLACE, value)
        assert {name: nodes[name].left(PLACE) for name in left} == left
        assert {name: share(nodes[name]).weighted for name in shares} == pytest.approx(shares)


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_added_is_removed_without_a_trace(name: str) -> None:
    example = EXAMPLES[name]
    tree = Tree(example["queues"], example.get("cohorts", ()))
    nodes = (*tree.cohorts.values(), *tree.queues.values())
    before = [node.left(PLACE) for node in nodes]
    for (used_by, value), _, _ in example["steps"]:
        tree.queues[used_by].add(PLACE, value)
    for (used_by, value), _, _ in example["steps"]:
        tree.queues[used_by].remove(PLACE, value)
    assert [node.left(PLACE) for node in nodes] == before
    assert all(node.usage.get(PLACE, 0) == 0 for node in nodes)


def test_the_subtree_quotas_of_departments() -> None:
    example = EXAMPLES["departments"]
    tree = Tree(example["queues"], example["cohorts"])
    assert {name: node.subtree[PLACE] for name, node in tree.cohorts.items()} == {
        "root": 7,
        "dept1": 3,
        "dept2": 6,
    }
    tree.queues["y"].add(PLACE, 6)
    assert tree.cohorts["root"].usage[PLACE] == 2


@pytest.mark.parametrize(
    ("value", "level", "not_the_whole_tree"), [(2, 0, True), (3, 1, True), (4, 2, False), (9, 2, False)]
)
def test_borrowing_is_measured_by_how_far_the_quota_is(
    value: int, level: int, not_the_whole_tree: bool
) -> None:
    example = EXAMPLES["departments"]
    tree = Tree(example["queues"], example["cohorts"])
    assert tree.queues["x"].borrowing_level(PLACE, value) == (level, not_the_whole_tree)


def test_a_cohort_that_is_only_named_has_no_quota_of_its_own() -> None:
    tree = Tree([queue("a", 1, "team")], [cohort("team", "company")])
    assert tree.cohorts["company"].subtree[PLACE] == 1
    assert tree.queues["a"].root is tree.cohorts["company"]


def test_a_cycle_of_cohorts_puts_all_under_it_out_of_service() -> None:
    cohorts = [cohort("a", "b"), cohort("b", "a"), cohort("below", "a"), cohort("fine")]
    queues = [queue("one", 1, "below"), queue("two", 1, "b"), queue("three", 1, "fine")]
    assert Tree(queues, cohorts).broken == {"one", "two"}


def test_weight_zero_is_an_infinite_share_as_soon_as_anything_is_borrowed() -> None:
    tree = Tree([queue("a", 1, "all", weight=0.0), queue("b", 9, "all")], [])
    node = tree.queues["a"]
    node.add(PLACE, 1)
    assert share(node).key == (0.0, 0.0)
    node.add(PLACE, 1)
    assert share(node).key > share(tree.queues["b"]).key
    assert share(node).weighted == float("inf")


def test_a_queue_that_uses_less_than_nothing_takes_that_before_its_cohort_notices() -> None:
    tree = Tree([queue("a", 4, "all")], [])
    node, place = tree.queues["a"], FlavorResource(FLAVOR, GPU)
    node.add(place, -3)
    assert (node.local_available(place), node.left(place)) == (3, 7)
    node.add(place, 5)
    assert tree.cohorts["all"].usage[place] == 2
