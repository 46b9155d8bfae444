"""Dominant resource shares: what is borrowed of what could be lent, where that is most."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kueue.model import ClusterQueue, FlavorQuotas, FlavorResource, Quota, ResourceGroup
from kueue.shares import Share, Tournament, share
from kueue.tree import QuotaNode, Tree
from tests.unit.kueue.made import FLAVOR, GPU, cohort, queue

BOTH = ({"cpu": 2, "gpu": 5}, {"cpu": 8, "gpu": 5})

CASES: dict[str, dict[str, Any]] = {
    # of the queue and of the one that lends: quota by flavor; used; share, resource
    "without a cohort": {"queues": BOTH, "alone": True, "used": {"cpu": 9, "gpu": 9}, "share": 0},
    "below the quota": {"queues": BOTH, "used": {"cpu": 1, "gpu": 2}, "share": 0},
    "at the quota": {"queues": BOTH, "used": {"cpu": 2, "gpu": 5}, "share": 0},
    "the larger of two": {"queues": BOTH, "used": {"cpu": 3, "gpu": 7}, "share": 200, "of": "gpu"},
    "only one above": {"queues": BOTH, "used": {"cpu": 3, "gpu": 3}, "share": 100, "of": "cpu"},
    "with what is asked for": {"queues": BOTH, "used": {"cpu": 5, "gpu": 6}, "share": 300, "of": "cpu"},
    "a little of much is rounded up": {
        "queues": ({"gpu": 500}, {"gpu": 500_000}), "used": {"gpu": 501}, "share": 1, "of": "gpu",
    },
    "over the weight": {"queues": BOTH, "weight": 2.0, "used": {"gpu": 7}, "share": 100, "of": "gpu"},
    "over a weight below one": {"queues": BOTH, "weight": 0.5, "used": {"gpu": 7}, "share": 400, "of": "gpu"},
    "weight zero without borrowing": {"queues": BOTH, "weight": 0.0, "used": {"gpu": 5}, "share": 0},
    "weight zero with borrowing": {
        "queues": BOTH, "weight": 0.0, "used": {"gpu": 6}, "share": math.inf, "of": "gpu",
    },
    "what nobody lends counts nothing": {
        "queues": ({"cpu": 2, "gpu": 0}, {"cpu": 8, "gpu": 0}),
        "used": {"cpu": 5, "gpu": 5},
        "share": 300,
        "of": "cpu",
    },
    "of equals the first by name": {
        "queues": ({"b": 0, "a": 0}, {"b": 10, "a": 10}), "used": {"a": 1, "b": 1}, "share": 100, "of": "a",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_shares(name: str) -> None:
    case = CASES[name]
    own, lender = (
        ResourceGroup(tuple(resources), (FlavorQuotas(FLAVOR, {r: Quota(n) for r, n in resources.items()}),))
        for resources in case["queues"]
    )
    parent = "" if case.get("alone") else "all"
    weight = case.get("weight", 1.0)
    tree = Tree(
        [ClusterQueue("q", (own,), parent, weight=weight), ClusterQueue("lender", (lender,), parent)], []
    )
    node = tree.queues["q"]
    for resource, value in case["used"].items():
        node.add(FlavorResource(FLAVOR, resource), value)
    dominant = share(node)
    weighted = dominant.weighted
    assert (weighted if math.isinf(weighted) else math.ceil(weighted)) == case["share"]
    assert dominant.resource == case.get("of", "")
    assert share(tree.queues["lender"]).weighted == 0


def test_what_is_borrowed_is_summed_over_flavors() -> None:
    tree = Tree([queue("q", {"a": 20, "b": 80}, "all"), queue("lender", {"c": 100}, "all")], [])
    node = tree.queues["q"]
    node.add(FlavorResource("a", GPU), 25)
    node.add(FlavorResource("b", GPU), 5)
    assert share(node).weighted == 25.0
    node.add(FlavorResource("b", GPU), 85)
    assert share(node).weighted == 75.0


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        (Share(), Share(1.0)),
        (Share(100.0, 2.0), Share(60.0)),
        (Share(900.0), Share(1.0, 0.0)),
        (Share(1.0, 0.0), Share(2.0, 0.0)),
        (Share(0.0, 0.0), Share(1.0)),
    ],
)
def test_shares_are_ordered(lower: Share, higher: Share) -> None:
    assert lower.key < higher.key


def winners(tree: Tree, wants: dict[str, int], order: dict[str, int]) -> list[str]:
    """Queues in the order of the tournament, each counted as admitted once it won."""
    place = FlavorResource(FLAVOR, GPU)
    entries: dict[str, tuple[QuotaNode, str]] = {name: (tree.queues[name], name) for name in wants}
    names = []
    for name in Tournament(entries, lambda name: {place: wants[name]}, lambda name: (order.get(name, 0),)):
        names.append(name)
        tree.queues[name].add(place, wants[name])
    return names


def test_the_tournament_looks_at_the_share_after_admission() -> None:
    tree = Tree([queue(name, 0, "all") for name in "ab"] + [queue("c", 9, "all")], [])
    assert winners(tree, {"a": 3, "b": 2, "c": 1}, {}) == ["c", "b", "a"]


def test_of_equal_shares_the_order_decides() -> None:
    tree = Tree([queue(name, 0, "all") for name in "ab"] + [queue("c", 9, "all")], [])
    assert winners(tree, {"a": 2, "b": 2}, {"b": -1}) == ["b", "a"]


def test_departments_compete_before_their_teams() -> None:
    tree = Tree(
        [queue("a1", 0, "a"), queue("a2", 0, "a"), queue("b1", 0, "b"), queue("rest", 12, "root")],
        [cohort("root"), cohort("a", "root"), cohort("b", "root")],
    )
    assert winners(tree, {"a1": 2, "a2": 2, "b1": 3}, {}) == ["a1", "b1", "a2"]


def test_queues_without_a_cohort_are_taken_as_they_come() -> None:
    tree = Tree([queue("a", 1), queue("b", 1)], [])
    assert winners(tree, {"b": 1, "a": 1}, {}) == ["a", "b"]
