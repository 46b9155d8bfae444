"""Kueue's cases of arithmetic and order: what is left, shares, fewer pods, who is a victim."""

from __future__ import annotations

import math

import pytest

from kueue.cycle import Cycle
from kueue.fair_victims import FairSearch, Targets
from kueue.flavors import Assignment, reduced
from kueue.item import Item
from kueue.model import Config, FlavorResource, Setup
from kueue.shares import share
from kueue.snapshot import QuotaSnapshot
from kueue.tree import Tree
from tests.unit.kueue.kueue import tables

TABLE = tables.table("quotas")


def cases(name: str) -> pytest.MarkDecorator:
    """Marks a test that runs for each case of a part of the table."""
    return pytest.mark.parametrize("case", TABLE[name].values(), ids=TABLE[name])


def plant(*parts: tables.Data) -> tuple[Setup, Tree]:
    """The queues and cohorts of these cases."""
    setup = tables.setup(*parts, namespaces={}, config=Config())
    return setup, Tree(setup.cluster_queues.values(), setup.cohorts.values())


@cases("available")
def test_what_is_left_and_what_could_be(case: tables.Data) -> None:
    _, tree = plant(case)
    used = {name: tables.usage(amounts) for name, amounts in case.get("used", {}).items()}
    for name, amounts in case["most"].items():
        for place, most in tables.usage(amounts).items():
            assert tree.queues[name].potential(place) == most == tree.queues[name].available(place)
    for name, amounts in used.items():
        tree.queues[name].add_all(amounts)
    for name, amounts in case["left"].items():
        assert {place: tree.queues[name].available(place) for place in tables.usage(amounts)} == tables.usage(
            amounts
        )
    for name, amounts in used.items():
        tree.queues[name].remove_all(amounts)
    assert not any(
        value for node in (*tree.queues.values(), *tree.cohorts.values()) for value in node.usage.values()
    )


@cases("shares")
def test_dominant_resource_shares(case: tables.Data) -> None:
    _, tree = plant(case)
    tree.queues["cq"].add_all(tables.usage(case.get("used", {})))
    asked = tables.usage(case.get("asked", {}))
    for name, (value, resource, borrowing) in case["shares"].items():
        node = tree.queues.get(name) or tree.cohorts[name]
        node.usage = {
            place: node.usage.get(place, 0) + asked.get(place, 0) for place in {*node.usage, *asked}
        }
        dominant = share(node)
        node.usage = {place: used - asked.get(place, 0) for place, used in node.usage.items()}
        whole = "infinite" if math.isinf(dominant.weighted) else math.ceil(dominant.weighted)
        assert (whole, dominant.resource, dominant.borrowing) == (value, resource, borrowing)


@cases("borrowing")
def test_what_is_borrowed_of_what_is_asked_for(case: tables.Data) -> None:
    cpu, gpu = "cpu", "example.com/gpu"
    queues = [
        {"name": "cq", "cohort": "all", "groups": [{"default": {cpu: ["2"], gpu: ["5"]}}]},
        {"name": "lender", "cohort": "all", "groups": [{"default": {cpu: ["8"], gpu: ["5"]}}]},
    ]
    _, tree = plant({"queues": queues})
    tree.queues["cq"].add_all(tables.usage(case["used"]))
    dominant = share(tree.queues["cq"])
    assert dominant.borrowing == case.get("at_all", False)
    assert bool(dominant.borrowed & set(tables.usage(case.get("asked", {})))) == case.get("of_asked", False)


@cases("reduced")
def test_the_largest_number_of_pods_that_fits(case: tables.Data) -> None:
    pods = case.get("pods", [])
    largest = reduced(
        [count for count, _ in pods], [least for _, least in pods], lambda counts: sum(counts) <= case["most"]
    )
    assert (None if largest is None else sum(largest)) == case["count"]


@cases("kept")
def test_what_a_head_without_victims_keeps_for_itself(case: tables.Data) -> None:
    _, tree = plant({"queues": [TABLE["keeper"]]})
    tree.queues["cq"].add_all(tables.usage(case.get("used", {})))
    asked = Assignment(usage=tables.usage(case["asks"]), borrowing=case["borrowing"])
    if case["mode"] == "PREEMPT":
        assert Cycle._held_back(tree.queues["cq"], asked) == tables.usage(case["kept"])
    else:
        assert tables.usage(case["kept"]) == asked.usage  # what fits is taken as it is


@cases("policies")
def test_whom_a_policy_lets_preempt(case: tables.Data) -> None:
    setup, tree = plant({})
    pair = [
        Item(tables.workload({"job": f"ns/{name}", "pods": [], **case[name]}))
        for name in ("preemptor", "candidate")
    ]
    assert QuotaSnapshot(setup, tree, {}).may_preempt(pair[0], pair[1], case["policy"]) == case["may"]


@cases("order")
def test_queues_give_victims_by_their_share(case: tables.Data) -> None:
    setup, tree = plant(case, {"flavors": [{"name": "default"}]})
    held: dict[str, dict[str, Item]] = {name: {} for name in setup.cluster_queues}
    for row in case["workloads"]:
        item = Item(workload := tables.workload(row))
        assert workload.admission is not None
        item.reserve(workload.admission, workload.reserved_at)
        held[item.cluster_queue][item.key] = item
        tree.queues[item.cluster_queue].add_all(item.usage)
    snapshot = QuotaSnapshot(setup, tree, held, now=tables.NOW)
    preemptor = Item(tables.workload({"job": "ns/new", "pods": []}))
    preemptor.cluster_queue = case["preemptor"]
    search = FairSearch(snapshot, preemptor, {FlavorResource("default", "cpu")}, {})
    candidates = [item for name in case["candidates"] for item in held[name].values()]
    targets = Targets(search, candidates)
    order = []
    actions = iter(case.get("actions", []))
    while (queue := targets.next()) is not None:
        order.append(queue.name)
        if next(actions, "") == "drop":
            targets.drop(queue)
        else:
            targets.pop(queue)
    assert order == case.get("order", [])
