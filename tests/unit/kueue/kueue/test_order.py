"""Kueue's cases of order: of a cycle's entries, of a strict queue, and of LocalQueues by what they used."""

from __future__ import annotations

import math

import pytest

from kueue.cycle import Cycle, Entry
from kueue.engine import Engine
from kueue.flavors import Assignment
from kueue.history import UsageHistory
from kueue.item import Item
from kueue.model import FINAL_SHARE, AdmissionFairSharing, Config, FlavorResource, WaitForPodsReady
from kueue.pending import Pending
from kueue.snapshot import QuotaSnapshot
from kueue.tree import Tree
from tests.unit.kueue.kueue import tables
from tests.unit.kueue.kueue.tables import NOW

TABLE = tables.table("order")
DOOR = ("ns", "lq")
WEEK = 168 * 3600.0
SAMPLING = 300.0


def cases(name: str) -> pytest.MarkDecorator:
    """Marks a test that runs for each case of a part of the table."""
    return pytest.mark.parametrize("case", TABLE[name].values(), ids=TABLE[name])


def pods_ready(case: tables.Data) -> Config:
    return Config(pods_ready=WaitForPodsReady(timestamp=case.get("timestamp", "Eviction")))


@cases("entries")
def test_entries_of_a_cycle_are_processed_in_kueues_order(case: tables.Data) -> None:
    setup = tables.setup({"queues": [{"name": "cq", "groups": []}]}, namespaces={}, config=pods_ready(case))
    snapshot = QuotaSnapshot(setup, Tree(setup.cluster_queues.values(), ()), {})
    entries = [
        Entry(Item(tables.workload(head)), Assignment(borrowing=head.get("borrows", 0)))
        for head in TABLE["heads"][case["heads"]]
    ]
    ordered = Cycle(snapshot, {}, 1)._ordered(entries)
    assert [entry.item.workload.name for entry in ordered] == case["order"]


@cases("less")
def test_of_two_queues_of_a_cohort_the_one_that_borrows_nothing_is_first(case: tables.Data) -> None:
    pair = {name: case[name] for name in ("first", "second")}
    queues = [
        {
            "name": name,
            "cohort": "all",
            "groups": [{"default": {"cpu": ["0" if given["borrows"] else "1"]}}],
        }
        for name, given in pair.items()
    ]
    queues.append({"name": "lender", "cohort": "all", "groups": [{"default": {"cpu": ["10"]}}]})
    setup = tables.setup({"queues": queues}, namespaces={}, config=Config(strategies=(FINAL_SHARE,)))
    snapshot = QuotaSnapshot(setup, Tree(setup.cluster_queues.values(), ()), {})
    entries = []
    for name, given in pair.items():
        item = Item(tables.workload({"job": f"ns/{name}", "pods": [], "created": given["created"]}))
        item.cluster_queue = name
        entries.append(Entry(item, Assignment(usage={FlavorResource("default", "cpu"): 1000})))
    first = next(Cycle(snapshot, {}, 1)._ordered(entries))
    assert (first.item.workload.name == "first") == case["before"]


@cases("strict")
def test_the_head_of_a_strict_queue(case: tables.Data) -> None:
    queue = Pending("StrictFIFO", pods_ready(case))
    for name in ("first", "second"):
        queue.push(Item(tables.workload({"job": f"ns/{name}", "pods": [], **case[name]})))
    head = queue.pop()
    assert head is not None
    assert head.workload.name == case["head"]


@cases("weighed")
def test_what_a_local_queue_used_is_weighed(case: tables.Data) -> None:
    settings = AdmissionFairSharing(600.0, SAMPLING, case.get("weights", {}))
    history = UsageHistory(settings, {DOOR: float(case.get("queue", 1))})
    used, charged = case.get("consumed", {}), case.get("charged", {})
    history.restore({"sampled": None, "used": [[*DOOR, used]], "charged": [[*DOOR, charged]]})
    assert history.of(DOOR) == (math.inf if case["usage"] == "infinite" else case["usage"])


def holding(**amounts: int) -> Item:
    """A workload that holds this of each resource."""
    item = Item(tables.workload({"job": "ns/one", "door": "lq", "pods": []}))
    item.usage = {FlavorResource("default", name): amount for name, amount in amounts.items()}
    return item


def test_usage_comes_near_what_is_held_by_half_lives() -> None:
    """Lines 151 and 177: 2,016 samples in each, none of which is lost to rounding."""
    history = UsageHistory(AdmissionFairSharing(WEEK, SAMPLING), {})
    item = holding(cpu=2000)
    history.sample(NOW, [item])
    samples, last = round(WEEK / SAMPLING), 0.0
    for number in range(1, 3 * samples + 1):
        history.sample(NOW + number * SAMPLING, [item])
        assert last < history.of(DOOR) < 2.0
        last = history.of(DOOR)
        if number % samples == 0:
            assert last == pytest.approx(TABLE["half_lives"][str(number // samples)], abs=0.001)


@pytest.mark.parametrize("size", [2**34, 2**40, 2**46])
def test_large_amounts_stay_positive(size: int) -> None:
    """Line 207."""
    history = UsageHistory(AdmissionFairSharing(WEEK, SAMPLING), {})
    history.sample(NOW, [])
    history.sample(NOW + SAMPLING, [holding(memory=size)])
    assert 0 < history.of(DOOR) < size


@pytest.mark.parametrize(("half_life", "asked"), [(600.0, 4000), (WEEK, 2000)])
def test_what_is_granted_is_charged_at_once_however_long_the_half_life(half_life: float, asked: int) -> None:
    """Lines 91 and 123."""
    history = UsageHistory(AdmissionFairSharing(half_life, SAMPLING), {})
    for item in (holding(cpu=asked), holding(gpu=1)):
        before = history.of(DOOR)
        history.charge(item, NOW, [item])
        assert history.of(DOOR) > before


@pytest.mark.parametrize(("used", "sampled"), [(0, None), (8, NOW), (8, NOW + SAMPLING)])
def test_a_grant_is_settled_into_what_was_used(used: int, sampled: float | None) -> None:
    """workload_controller_test: TestUpdateAfsConsumedUsage, the last with a clock that was set back."""
    history = UsageHistory(AdmissionFairSharing(SAMPLING, SAMPLING), {})
    history.restore({"sampled": sampled, "used": [[*DOOR, {"cpu": used}]]})
    item = holding(cpu=4000)
    history.charge(item, NOW, [item])
    assert history.of(DOOR) == used + 2.0
    history.sample(NOW + SAMPLING, [])
    assert history.of(DOOR) == (used + 2.0) / (1 if sampled == NOW + SAMPLING else 2), "it fades as all usage"


def test_usage_goes_on_to_the_moment_of_a_grant_and_from_there_to_the_next_sample() -> None:
    history = UsageHistory(AdmissionFairSharing(SAMPLING, 2 * SAMPLING), {})
    first, second = holding(cpu=8000), holding(cpu=4000)
    history.sample(NOW, [first])
    history.charge(second, NOW + SAMPLING, [first, second])
    assert history.of(DOOR) == 6.0 + 3.0, "half of the 12 held, and three quarters of the 4 granted"
    history.sample(NOW + 2 * SAMPLING, [first, second])
    assert history.of(DOOR) == 4.5 + 6.0


@pytest.mark.parametrize(("given", "weight"), [({"weight": "2"}, 2.0), ({}, 1.0)])
def test_the_weight_of_a_local_queue(given: tables.Data, weight: float) -> None:
    """Line 38; one that is not there has weight 1 too."""
    parts = {
        "queues": [{"name": "cq", "groups": [], "usage_based": True}],
        "doors": [{"name": "lq", "namespace": "ns", "queue": "cq", **given}],
    }
    config = Config(admission_fair_sharing=AdmissionFairSharing(600.0))
    engine = Engine(tables.setup(parts, namespaces={}, config=config))
    assert engine.history is not None
    for name, factor in (("lq", weight), ("missing", 1.0)):
        engine.history.restore({"sampled": None, "used": [["ns", name, {"cpu": 6.0}]]})
        assert engine.history.of(("ns", name)) == 6.0 / factor
