"""Shortages, who holds what is missing, and places in a queue."""

from __future__ import annotations

from kueue.engine import Engine
from kueue.holders import Holder, Position, Shortage, holders, position, positions, shortages
from kueue.model import (
    ClusterQueue,
    FlavorQuotas,
    FlavorResource,
    LocalQueue,
    PodSet,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Setup,
    Taint,
    Workload,
)
from tests.unit.kueue.made import FLAVOR, GPU, decided, job, queue, running, setup

PLACE = FlavorResource(FLAVOR, GPU)


def missing_and_holders(at: Engine, key: str) -> tuple[tuple[Shortage, ...], list[str]]:
    """Shortages of a workload, and the names of the holders."""
    item = at.items[key]
    short = shortages(at, item)
    return short, [holder.workload for holder in holders(at, item, short)]


def test_what_is_missing_is_what_is_asked_for_less_what_is_free() -> None:
    at = decided(setup(queue("a", 4)), running("old", "a", 3), job("new", "a", 2))
    assert missing_and_holders(at, "ns/new") == ((Shortage(PLACE, 1, 2),), ["ns/old"])


def test_a_holder_is_told_with_its_amount_and_since_when() -> None:
    at = decided(setup(queue("a", 2)), running("old", "a", 2, priority=3), job("new", "a", 1))
    item = at.items["ns/new"]
    (holder,) = holders(at, item, shortages(at, item))
    since = at.items["ns/old"].admitted_at
    assert holder == Holder("ns/old", ("ns", "a"), "a", 3, {PLACE: 2}, since)


def test_who_borrows_is_a_holder_and_who_keeps_to_its_own_unlent_quota_is_not() -> None:
    given = setup(queue("a", 2, "all"), queue("b", 2, "all"), queue("c", (2, None, 0), "all"))
    at = decided(given, running("borrower", "b", 4), running("private", "c", 2), job("new", "a", 1))
    assert missing_and_holders(at, "ns/new")[1] == ["ns/borrower"]


def test_under_its_own_borrowing_limit_only_its_own_queue_holds_what_is_missing() -> None:
    given = setup(queue("a", (2, 0), "all"), queue("b", 4, "all"))
    at = decided(given, running("own", "a", 2), running("other", "b", 4), job("new", "a", 1))
    assert missing_and_holders(at, "ns/new") == ((Shortage(PLACE, 1, 1),), ["ns/own"])


def test_nobody_holds_what_is_more_than_there_could_be() -> None:
    at = decided(setup(queue("a", 2)), running("old", "a", 2), job("big", "a", 3))
    assert missing_and_holders(at, "ns/big") == ((), [])


def test_with_a_minimum_that_counts() -> None:
    at = decided(setup(queue("a", 4)), running("old", "a", 3), job("new", "a", 1, count=4, min_count=2))
    assert missing_and_holders(at, "ns/new")[0] == (Shortage(PLACE, 1, 2),)


def test_a_flavor_that_does_not_suit_is_not_told_of() -> None:
    taint = Taint("only", "others", "NoSchedule")
    given = setup(
        queue("a", {"plain": 1, "tainted": 9}),
        flavors={"plain": ResourceFlavor("plain"), "tainted": ResourceFlavor("tainted", {}, (taint,))},
    )
    at = decided(given, running("old", "a", 1, flavor="plain"), job("new", "a", 1))
    assert [shortage.place.flavor for shortage in missing_and_holders(at, "ns/new")[0]] == ["plain"]


def test_pods_can_be_what_is_missing() -> None:
    pods = ResourceGroup(("pods",), (FlavorQuotas("any", {"pods": Quota(1)}),))
    given = Setup(
        {"a": ClusterQueue("a", (pods,))},
        local_queues={("ns", "a"): LocalQueue("ns", "a", "a")},
        flavors={"any": ResourceFlavor("any")},
    )
    one = Workload("ns", "one", "a", (PodSet(),), uid="1", created=1.0)
    two = Workload("ns", "two", "a", (PodSet(),), uid="2", created=2.0)
    at = decided(given, one, two)
    assert missing_and_holders(at, "ns/two") == ((Shortage(FlavorResource("any", "pods"), 1, 1),), ["ns/one"])


def test_nothing_is_missing_in_a_queue_that_is_stopped() -> None:
    at = decided(setup(queue("a", 1, stop="Hold")), running("old", "a", 1), job("new", "a", 1))
    assert missing_and_holders(at, "ns/new") == ((), [])


def test_places_are_counted_from_0_in_both_queues() -> None:
    doors = {("ns", name): LocalQueue("ns", name, "a") for name in ("x", "y")}
    at = decided(
        setup(queue("a", 0), local_queues=doors),
        job("low", "x", 1, created=1.0),
        job("high", "x", 1, created=2.0, priority=5),
        job("other", "y", 1, created=3.0),
    )
    assert positions(at) == {
        "ns/high": Position(0, 3, 0, 2),
        "ns/low": Position(1, 3, 1, 2),
        "ns/other": Position(2, 3, 0, 1),
    }
    assert position(at, at.items["ns/low"]) == Position(1, 3, 1, 2)


def test_who_runs_or_has_no_queue_has_no_place() -> None:
    at = decided(setup(queue("a", 1)), running("old", "a", 1), job("lost", "nowhere", 1))
    assert position(at, at.items["ns/old"]) is None
    assert position(at, at.items["ns/lost"]) is None
